package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"headroom/chaos"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/scenario"
	"headroom/e2e/framework/workload"
	"headroom/fixtures/quota"
)

// step does one step.
func (p *player) step(ctx context.Context, s scenario.Step) error {
	switch {
	case s.Pods != nil:
		return p.makePods(ctx, s.Pods)
	case s.Delete != "":
		return p.deletePods(ctx, s.Delete)
	case s.Quota != nil:
		change := quota.NodeChange{Limit: s.Quota.Limit, Foreign: s.Quota.Foreign}
		return cluster.Environment("change a quota", p.Quota.ChangeNode(ctx, p.target(s.Quota.Node).Node(), change))
	case s.Fault != nil:
		return p.inject(ctx, s.Fault)
	case s.Heal != "":
		return p.heal(ctx, s.Heal)
	case s.Component != nil:
		return p.component(ctx, s.Component)
	case s.Patch != nil:
		return p.patch(ctx, s.Patch)
	case s.Replace != nil:
		return p.replace(ctx, *s.Replace)
	case s.Remove != nil:
		return p.remove(ctx, *s.Remove)
	case s.Wait != nil:
		return p.wait(ctx, s.Wait)
	case s.Sleep != nil:
		return Pause(ctx, time.Duration(*s.Sleep))
	}
	return errors.New("a step with nothing in it")
}

func (p *player) makePods(ctx context.Context, s *scenario.Pods) error {
	selector := p.On()
	if s.On != nil {
		selector = p.On(s.On.Node - 1)
	}
	for range max(s.Count, 1) {
		var volumes []workload.Volume
		count := s.Volumes
		if count == 0 && s.Ephemeral == 0 {
			count = 1
		}
		for range count {
			v, err := p.Volume(ctx, workload.VolumeOptions{})
			if err != nil {
				return err
			}
			volumes = append(volumes, v)
		}
		pod, err := p.PodOf(ctx, workload.Template{Selector: selector, Volumes: volumes, Ephemeral: s.Ephemeral})
		if err != nil {
			return err
		}
		p.pods[s.Name] = append(p.pods[s.Name], pod)
	}
	return nil
}

func (p *player) deletePods(ctx context.Context, name string) error {
	for _, pod := range p.pods[name] {
		if err := p.DeletePod(ctx, pod.Name); err != nil {
			return err
		}
	}
	delete(p.pods, name)
	return nil
}

func (p *player) component(ctx context.Context, s *scenario.Component) error {
	c, err := p.target(s.Target).Component(ctx)
	if err != nil {
		return cluster.Environment("find "+s.Target.String(), err)
	}
	switch s.Do {
	case scenario.Start:
		err = c.Start(ctx, s.Version)
	case scenario.Stop:
		err = c.Stop(ctx, cluster.Terminate)
	case scenario.Kill:
		err = c.Stop(ctx, cluster.Kill)
	case scenario.Restart:
		if s.Version == "" {
			err = cluster.Restart(ctx, c, cluster.Terminate)
		} else if err = c.Stop(ctx, cluster.Terminate); err == nil {
			err = c.Start(ctx, s.Version)
		}
	case scenario.Pause:
		err = c.Pause(ctx)
	case scenario.Resume:
		err = c.Resume(ctx)
	}
	return cluster.Environment(string(s.Do)+" "+c.ID(), err)
}

// patch changes an object as the administrator.
func (p *player) patch(ctx context.Context, s *scenario.Patch) error {
	var merge any
	if err := s.Merge.Decode(&merge); err != nil {
		return fmt.Errorf("patch of %s: %w", s.Object, err)
	}
	body, err := json.Marshal(merge)
	if err != nil {
		return fmt.Errorf("patch of %s: %w", s.Object, err)
	}
	name := p.objectName(s.Object)
	return p.Record("patch", string(s.Object.Class), name, Administrator, func() (err error) {
		const kind = types.MergePatchType
		switch s.Object.Class {
		case scenario.CSIDriver:
			_, err = p.Client.StorageV1().CSIDrivers().Patch(ctx, name, kind, body, metav1.PatchOptions{})
		case scenario.CSINode:
			_, err = p.Client.StorageV1().CSINodes().Patch(ctx, name, kind, body, metav1.PatchOptions{})
		default:
			_, err = p.Client.CoreV1().Nodes().Patch(ctx, name, kind, body, metav1.PatchOptions{})
		}
		return err
	})
}

func (p *player) objectName(t scenario.Target) string {
	if t.Class == scenario.CSIDriver {
		return p.Driver
	}
	return p.target(t).Node()
}

// remove deletes an object as the administrator.
func (p *player) remove(ctx context.Context, t scenario.Target) error {
	name, none := p.objectName(t), metav1.DeleteOptions{}
	return p.Record("delete", string(t.Class), name, Administrator, func() error {
		switch t.Class {
		case scenario.CSIDriver:
			return p.Client.StorageV1().CSIDrivers().Delete(ctx, name, none)
		case scenario.CSINode:
			return p.Client.StorageV1().CSINodes().Delete(ctx, name, none)
		}
		return p.Client.CoreV1().Nodes().Delete(ctx, name, none)
	})
}

// replaceTimeout bounds the wait for an object that is deleted to be gone.
const replaceTimeout = 30 * time.Second

// replace deletes an object and makes it again as it was, but for its UID.
func (p *player) replace(ctx context.Context, t scenario.Target) error {
	if t.Class == scenario.OnNode {
		return chaos.ReplaceNode(ctx, p.target(t))
	}
	drivers, name := p.Client.StorageV1().CSIDrivers(), p.objectName(t)
	return p.Record("replace", string(t.Class), name, Administrator, func() error {
		old, err := drivers.Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if err := drivers.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		err = p.await(ctx, replaceTimeout, func(ctx context.Context) error {
			if _, err := drivers.Get(ctx, name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s %q: want it gone, got it still there (error: %v)", t.Class, name, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
		old.ObjectMeta = metav1.ObjectMeta{Name: name, Labels: old.Labels, Annotations: old.Annotations}
		_, err = drivers.Create(ctx, old, metav1.CreateOptions{})
		return err
	})
}
