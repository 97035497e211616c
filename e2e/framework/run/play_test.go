package run

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/e2e/framework/history"
	"headroom/e2e/framework/scenario"
)

func TestTryTellsFailuresApart(t *testing.T) {
	if err := Try("x", func() {}); err != nil {
		t.Errorf("want no error, got %v", err)
	}
	var env *cluster.EnvironmentError
	if err := Try("x", func() { panic(Failure{Err: errors.New("want 1, got 2")}) }); err == nil || errors.As(err, &env) {
		t.Errorf("a failed check: want the product's failure, got %v", err)
	}
	if err := Try("x", func() { panic("oops") }); !errors.As(err, &env) || !strings.Contains(err.Error(), "oops") {
		t.Errorf("a panic: want an environment error, got %v", err)
	}
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if err := unlessInterrupted(interrupted, "x", nil); !errors.As(err, &env) {
		t.Errorf("an interrupted scenario: want an environment error, got %v", err)
	}
	if err := unlessInterrupted(t.Context(), "x", nil); err != nil {
		t.Errorf("want no error, got %v", err)
	}
}

// scripted is a player with a history and faults, but without a cluster.
func scripted(t *testing.T) (*player, string) {
	t.Helper()
	dir := t.TempDir()
	w, err := history.Create(dir, "r", history.SourceFault)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return &player{Bench: &Bench{Session: &Session{owner: &owner{faults: w}}, Scope: "s", Driver: "d"}}, dir
}

func TestHealsAreLastFirstAndOutliveTheRun(t *testing.T) {
	p, _ := scripted(t)
	var order []string
	add := func(key string, err error) {
		p.active = append(p.active, &injected{key: key, record: func(string, string) {}, heal: func(ctx context.Context) error {
			order = append(order, key)
			return errors.Join(err, ctx.Err())
		}})
	}
	add("a", nil)
	add("b", errors.New("stuck"))
	add("c", nil)
	interrupted, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.heal(interrupted, "c"); err != nil {
		t.Errorf("heal of c in an interrupted run: %v", err)
	}
	err := p.healAll(interrupted)
	var env *cluster.EnvironmentError
	if !errors.As(err, &env) || !strings.Contains(err.Error(), "stuck") || strings.Join(order, "") != "cba" || len(p.active) != 0 {
		t.Errorf("want c, b, a healed and b's failure as the environment's, got %v and %v", order, err)
	}
	if err := p.heal(t.Context(), "a"); err == nil {
		t.Error("a fault that is healed: want an error, got none")
	}
}

func TestInjectionsAreRecorded(t *testing.T) {
	p, dir := scripted(t)
	p.Nodes = []string{"n1"}
	// There is no backend, so that the fault cannot be injected.
	err := Try("x", func() {
		p.Check(p.inject(t.Context(), &scenario.Fault{Name: "no-such-fault"}))
	})
	if err == nil || !strings.Contains(err.Error(), `no fault "no-such-fault"`) {
		t.Errorf("an unknown fault: got %v", err)
	}
	i := &injected{key: "k", record: func(state, detail string) {
		p.owner.faults.Write(history.Event{Phase: history.Observed, Key: "f", Body: history.Encode(history.Fault{State: state, Detail: detail})})
	}, heal: func(context.Context) error { return errors.New("stuck") }}
	p.active = append(p.active, i)
	_ = p.end(t.Context(), i) // its failure is held elsewhere
	var states []string
	_, err = history.Count(dir, history.SourceFault, func(e history.Event) bool {
		var f history.Fault
		if e.Key == "f" && e.Decode(&f) == nil {
			states = append(states, f.State+f.Detail)
		}
		return true
	})
	if got := strings.Join(states, " "); err != nil || got != "heal failedheal: stuck" {
		t.Errorf("want heal, then failed with its reason, got %q (%v)", got, err)
	}
}

func TestPodStates(t *testing.T) {
	pod := func(node string, phase corev1.PodPhase, reason, message string) *corev1.Pod {
		p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Phase: phase, Reason: reason}}
		if message != "" {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: message}}
		}
		return p
	}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"new":           {pod("", corev1.PodPending, "", ""), ""},
		"no room":       {pod("", corev1.PodPending, "", "0/1: 1 node(s) exceed max volume count"), "unschedulable"},
		"other reasons": {pod("", corev1.PodPending, "", "0/1: didn't match selector"), ""},
		"attaching":     {pod("n", corev1.PodPending, "", ""), "scheduled waiting"},
		"running":       {pod("n", corev1.PodRunning, "", ""), "running scheduled"},
		"rejected":      {pod("n", corev1.PodFailed, RejectionReason, ""), "scheduled rejected"},
		"failed":        {pod("n", corev1.PodFailed, "Evicted", ""), "scheduled"},
	} {
		var got []string
		for _, s := range scenario.PodStates {
			if fits(c.pod, s) {
				got = append(got, string(s))
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: want %q, got %q", name, c.want, got)
		}
	}
}

func TestOverride(t *testing.T) {
	declared := drivers.Figures{MinInterval: 1e9, CacheAge: 2e9, LastGoodLife: 30e9, Step: 2, StepInterval: 10e9}
	got, err := Override(declared, scenario.Figures{CacheAge: 5e9, Step: 3})
	if want := (drivers.Figures{MinInterval: 1e9, CacheAge: 5e9, LastGoodLife: 30e9, Step: 3, StepInterval: 10e9}); err != nil || got != want {
		t.Errorf("want %+v, got %+v (%v)", want, got, err)
	}
	for name, by := range map[string]scenario.Figures{
		"cacheAge 1ms": {CacheAge: 1e6}, "lastGoodLife 1s": {LastGoodLife: 1e9},
	} {
		if _, err := Override(declared, by); err == nil || !strings.Contains(err.Error(), "is less than") {
			t.Errorf("%s: want an error, got %v", name, err)
		}
	}
	if _, err := Override(drivers.Figures{MinInterval: 1, CacheAge: 1, LastGoodLife: 1}, scenario.Figures{Step: 1}); err == nil {
		t.Error("a step without an interval: want an error, got none")
	}
}

func TestGeneratorIsOfSeedAndName(t *testing.T) {
	draw := func(seed int64, name string) uint64 {
		return (&Session{Header: history.Header{Seed: seed}}).generator(name).Uint64()
	}
	if again := draw(1, "a"); again != draw(1, "a") || again == draw(2, "a") || draw(1, "a") == draw(1, "b") {
		t.Error("want random choices that follow from seed and name, and from nothing else")
	}
}

func TestStepsThatComeLateMoveTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &player{began: time.Now().Add(-time.Hour)}
		for _, at := range []time.Duration{0, 40 * time.Second} {
			if err := p.due(t.Context(), at); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		if err := p.due(t.Context(), 90*time.Second); err != nil || time.Since(began) != 50*time.Second {
			t.Errorf("want 50s between the steps as planned, got %s, %v", time.Since(began), err)
		}
		p.began = time.Now()
		if err := p.due(t.Context(), 0); err != nil || time.Since(p.began) != 0 {
			t.Errorf("a step in time: want no wait, got %s, %v", time.Since(p.began), err)
		}
	})
}

func TestPauseEndsEarly(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := Pause(ctx, time.Hour); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("want the end of the context, got %v", err)
	}
	if err := Pause(t.Context(), -1); err != nil {
		t.Errorf("a time that has passed: want no wait, got %v", err)
	}
}
