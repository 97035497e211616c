package observe

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	storagev1 "k8s.io/api/storage/v1"

	"headroom/e2e/framework/history"
)

// auditLine is what is read of one audit event (audit.k8s.io/v1 Event).
type auditLine struct {
	Kind             string    `json:"kind"`
	AuditID          string    `json:"auditID"`
	Stage            string    `json:"stage"`
	RequestURI       string    `json:"requestURI"`
	Verb             string    `json:"verb"`
	User             auditUser `json:"user"`
	ImpersonatedUser auditUser `json:"impersonatedUser"`
	ObjectRef        struct {
		APIGroup    string `json:"apiGroup"`
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	ResponseStatus struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	RequestObject            json.RawMessage `json:"requestObject"`
	ResponseObject           json.RawMessage `json:"responseObject"`
	RequestReceivedTimestamp time.Time       `json:"requestReceivedTimestamp"`
	StageTimestamp           time.Time       `json:"stageTimestamp"`
}

type auditUser struct {
	Username string `json:"username"`
}

func parseAuditLine(text []byte) (auditLine, error) {
	var l auditLine
	if err := json.Unmarshal(text, &l); err != nil {
		return l, fmt.Errorf("want an audit event as JSON: %w", err)
	}
	if l.Kind != "Event" || l.AuditID == "" || l.Stage == "" || l.StageTimestamp.IsZero() || l.RequestReceivedTimestamp.IsZero() {
		return l, errors.New("want an audit event with kind Event, auditID, stage and time stamps: was the log written with --audit-log-format=json?")
	}
	return l, nil
}

// storageWrite reports whether the line is about a write that history keeps. A dry run writes nothing, whatever it answers.
func (l auditLine) storageWrite() bool {
	switch l.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
	default:
		return false
	}
	u, err := url.ParseRequestURI(l.RequestURI)
	return l.ObjectRef.APIGroup == "storage.k8s.io" && (err != nil || !u.Query().Has("dryRun"))
}

func (l auditLine) completion() bool { return l.Stage == "ResponseComplete" || l.Stage == "Panic" }

// status is the HTTP status; 0 where the server gave none.
func (l auditLine) status() int { return l.ResponseStatus.Code }

func (l auditLine) phase() history.Phase {
	switch code := l.status(); {
	case l.Stage == "Panic":
		return history.Unknown
	case code >= 200 && code < 300:
		return history.OK
	case code >= 400 && code < 500:
		return history.Fail
	}
	return history.Unknown
}

// body returns what invoke and completion have in common. The user is the one in whose name the request ran.
func (l auditLine) body() history.Audit {
	request, response := l.request(), l.response()
	return history.Audit{
		User: cmp.Or(l.ImpersonatedUser.Username, l.User.Username), Verb: l.Verb,
		Resource: l.ObjectRef.Resource, Subresource: l.ObjectRef.Subresource,
		Name:           cmp.Or(l.ObjectRef.Name, response.Metadata.Name, request.Metadata.Name),
		RequestVersion: request.Metadata.ResourceVersion,
	}
}

// auditObject is what is read of a request's or an answer's object.
type auditObject struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name            string `json:"name"`
		ResourceVersion string `json:"resourceVersion"`
	} `json:"metadata"`
	Spec struct {
		NodeName string                    `json:"nodeName"`
		Drivers  []storagev1.CSINodeDriver `json:"drivers"`
	} `json:"spec"`
}

// request returns the request's object; empty where there is none of that form (a JSON patch is a list).
func (l auditLine) request() auditObject { return parseAuditObject(l.RequestObject) }

// response returns the object answered; empty where the answer was a Status or a list, which carry no object of their own.
func (l auditLine) response() auditObject {
	o := parseAuditObject(l.ResponseObject)
	if o.Kind == "Status" || strings.HasSuffix(o.Kind, "List") {
		return auditObject{}
	}
	return o
}

func parseAuditObject(raw json.RawMessage) auditObject {
	var o auditObject
	if len(raw) == 0 || json.Unmarshal(raw, &o) != nil {
		return auditObject{}
	}
	return o
}

func (o auditObject) revision() int64 { return revision(o.Metadata.ResourceVersion) }

// drivers returns spec.drivers of a CSINode.
func (o auditObject) drivers(resource string) []history.CSINodeDriver {
	if resource != "csinodes" {
		return nil
	}
	return csiNodeDrivers(o.Spec.Drivers)
}

// writeSource writes the whole file of one source, framed as history.Writer frames it. history.Writer itself cannot: it stamps its open record with
// the present, and lets no later event be older.
func writeSource(eventsDir, run, source string, events []history.Event) (err error) {
	first, last := history.Now(), history.Now()
	if len(events) > 0 {
		first, last = events[0].At, events[len(events)-1].At
	}
	frame := map[string]any{"run": run, "pid": os.Getpid(), "program": filepath.Base(os.Args[0])}
	all := append([]history.Event{{At: first, Phase: history.Observed, Key: history.KeyOpen, Body: history.Encode(frame)}}, events...)
	all = append(all, history.Event{At: last, Phase: history.Observed, Key: history.KeyClose})

	path := filepath.Join(eventsDir, filepath.FromSlash(source)+".jsonl")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), ".audit-*") // not *.jsonl: a half-written one must not be merged
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tmp.Close(), os.Remove(tmp.Name()))
		}
	}()
	enc := json.NewEncoder(tmp)
	for i, e := range all {
		e.Source, e.Seq = source, uint64(i+1)
		if err := enc.Encode(e); err != nil {
			return err
		}
	}
	if err := errors.Join(tmp.Chmod(0o644), tmp.Close()); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
