// Package drivercheck judges a CSI driver without a cluster, in seconds: it calls the driver as the kubelet and the external-attacher do, and changes
// what the driver sees of its limit meanwhile.
//
// Contract: Run starts the driver from its definition, or takes one that is running. What is judged is fixed (checks.go); each check has cases, and what
// was not put to the test is said with its reason and never counts as held. What a driver cannot be made to see from outside comes from the quota backend's
// control interface or from the definition's causes. Whatever is changed on them is put back, also when Run is interrupted.
//
// A socket that is not there or speaks something else is a *cluster.EnvironmentError or a *cluster.InputError: nothing is known of the driver then. A
// driver that hangs, ends or answers wrongly is a violation.
//
// It does not see the kubelet, the scheduler or the attacher: what these make of the answers is what `headroom run` shows.
package drivercheck

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"headroom/drivers"
	"headroom/e2e/framework/cluster"
	"headroom/fixtures/quota"
)

// DefaultWait is the longest time that one case may take for something that the driver declares, such as a step.
const DefaultWait = 30 * time.Second

// Options say what to check.
type Options struct {
	// Definition describes the driver. Nil where nothing is known of it but its socket.
	Definition *drivers.Definition
	// Socket is where a running driver serves its Node service, unix:///path; "" starts the driver from the definition.
	Socket string
	// Controller is where it serves its Controller service; "" means Socket.
	Controller string
	// Quota is the control interface of the backend that a running driver asks; nil where it asks none of ours.
	Quota *quota.Control
	// Volumes are ids of volumes that exist and are attached nowhere.
	Volumes []string
	// Wait bounds what one case may wait for by the driver's own figures; 0 means DefaultWait. A case that would take longer is skipped.
	Wait time.Duration
	// Scale stretches the deadlines of calls and of starts, for drivers under a debugger; 0 means 1.
	Scale float64
	// Out receives progress; nil discards it.
	Out io.Writer
}

func badInput(remedy, format string, args ...any) error {
	return &cluster.InputError{Err: fmt.Errorf(format, args...), Remedy: remedy}
}

// prepare checks options and fills them in.
func (o Options) prepare() (Options, error) {
	if o.Wait == 0 {
		o.Wait = DefaultWait
	}
	if o.Scale == 0 {
		o.Scale = 1
	}
	if o.Out == nil {
		o.Out = io.Discard
	}
	switch {
	case o.Socket == "" && o.Definition == nil:
		return o, badInput("give the socket of a running driver, or a definition from which it can be started", "there is no driver to check")
	case o.Socket == "" && !o.Definition.HasProcess():
		return o, badInput("add node.command to it, or give the socket of a driver that runs, with --socket", "definition %q has pods and no process that could be started here", o.Definition.Name)
	case o.Socket == "" && (o.Controller != "" || o.Quota != nil):
		return o, badInput("give the node's socket too, or leave them out: a driver that is started here gets sockets and a backend of its own",
			"a controller's socket or a quota backend without the socket of a running driver")
	case !drivers.GoodScale(o.Scale):
		return o, badInput(fmt.Sprintf("write 1 to %d, such as 20", drivers.MaxScale), "a timeout scale of %g", o.Scale)
	case o.Wait < 0:
		return o, badInput("write a duration such as 30s", "a wait of %s", o.Wait)
	}
	return o, nil
}

// Run checks a driver. The report is sound also where an error comes with it: an environment that failed on the way, which leaves cases inconclusive.
func Run(ctx context.Context, o Options) (_ Report, err error) {
	o, err = o.prepare()
	if err != nil {
		return Report{}, err
	}
	began := time.Now()
	s := &session{Options: o, rec: newRecorder(), began: began}
	defer func() { err = errors.Join(err, s.close(context.WithoutCancel(ctx))) }()
	if err := s.open(ctx); err != nil {
		return Report{}, err
	}
	var lost *lostError
	var driver *cluster.DriverError
	var input *cluster.InputError
	switch err = s.judge(ctx); {
	case errors.As(err, &lost): // recorded where it was met
		err = nil
	case errors.As(err, &driver):
		s.rec.violated(caseAnswers, "%v", driver)
		s.rec.stopped, err = "the driver did not come back", nil
	case errors.As(err, &input):
		return Report{}, err
	case err != nil:
		s.rec.stopped = err.Error()
	}
	r := s.rec.report()
	r.Driver, r.Version, r.Node, r.Started, r.Elapsed = s.name, s.version, s.nodeID, began.UTC().Truncate(time.Second), elapsed(time.Since(began))
	if o.Definition != nil {
		r.Definition = o.Definition.Name
	}
	return r, cluster.Environment("check the driver", err)
}
