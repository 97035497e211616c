package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"headroom/e2e/framework/cluster"
)

// etcdWatch is where etcd's JSON gateway watches. The cell's control socket lends it to the runner under the same path.
const etcdWatch = "/v3/watch"

const (
	// changesTimeout bounds the reading of what changed between two revisions, both of which are past.
	changesTimeout = 10 * time.Second
	// changesPause is the time between two tries.
	changesPause = 50 * time.Millisecond
)

// Changes reads from etcd itself what changed after one revision and up to another. A restarted API server does not know: its watches begin anew. What
// happened does not change, so an answer that breaks off is asked for again.
func (c *Cluster) Changes(ctx context.Context, after, upTo int64) ([]cluster.Stored, error) {
	if after >= upTo {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, changesTimeout)
	defer cancel()
	for {
		changes, err := c.changes(ctx, after, upTo)
		if err == nil || errors.Is(err, errRefused) {
			return changes, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(changesPause):
		}
	}
}

// changes asks once.
func (c *Cluster) changes(ctx context.Context, after, upTo int64) ([]cluster.Stored, error) {
	all := []byte{0} // as key and as end of the range: every key
	request, err := json.Marshal(map[string]any{"create_request": map[string]any{
		"key": all, "range_end": all, "start_revision": fmt.Sprint(after + 1), "prev_kv": true,
	}})
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://cell"+etcdWatch, bytes.NewReader(request))
	if err != nil {
		return nil, err
	}
	resp, err := c.control.http.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask etcd for changes after revision %d: %w", after, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask etcd for changes after revision %d: it answers %s", after, resp.Status)
	}
	changes, err := readChanges(json.NewDecoder(resp.Body), upTo)
	if err != nil {
		return nil, fmt.Errorf("read etcd's changes after revision %d up to %d: %w", after, upTo, err)
	}
	return changes, nil
}

// errRefused is part of the error of a question that etcd would not answer otherwise next time.
var errRefused = errors.New("etcd refuses")

// watchAnswer is one message of etcd's watch, as its JSON gateway writes it: 64-bit numbers are text.
type watchAnswer struct {
	Result struct {
		Canceled        bool   `json:"canceled"`
		CancelReason    string `json:"cancel_reason"`
		CompactRevision int64  `json:"compact_revision,string"`
		Events          []struct {
			Type     string   `json:"type"`
			KV       etcdPair `json:"kv"`
			Previous etcdPair `json:"prev_kv"`
		} `json:"events"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type etcdPair struct {
	Key            []byte `json:"key"`
	Value          []byte `json:"value"`
	CreateRevision int64  `json:"create_revision,string"`
	ModRevision    int64  `json:"mod_revision,string"`
}

// readChanges reads messages until one has a change of revision upTo or later. Every revision is a change of some key, so one comes; the changes of one
// revision come together.
func readChanges(in *json.Decoder, upTo int64) ([]cluster.Stored, error) {
	var changes []cluster.Stored
	for {
		var answer watchAnswer
		if err := in.Decode(&answer); err != nil {
			return nil, err
		}
		switch r := answer.Result; {
		case answer.Error != nil:
			return nil, fmt.Errorf("%w: %s", errRefused, answer.Error.Message)
		case r.Canceled, r.CompactRevision > 0:
			return nil, fmt.Errorf("%w: it ended the watch: %s (compacted at revision %d)", errRefused, r.CancelReason, r.CompactRevision)
		}
		reached := false
		for _, e := range answer.Result.Events {
			reached = reached || e.KV.ModRevision >= upTo
			if e.KV.ModRevision > upTo {
				continue
			}
			s := cluster.Stored{Key: string(e.KV.Key), Rev: e.KV.ModRevision, Value: e.KV.Value}
			if e.Type == "DELETE" {
				s.Deleted, s.Value = true, e.Previous.Value
			} else {
				s.Created = e.KV.CreateRevision == e.KV.ModRevision
			}
			changes = append(changes, s)
		}
		if reached {
			return changes, nil
		}
	}
}
