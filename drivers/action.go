package drivers

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// maxOutput is how much of what a failed action wrote goes into its error, in bytes.
const maxOutput = 2 << 10

// actionValues are the placeholders that an action may have.
func actionValues(node string, limit, foreign int64) map[string]string {
	return map[string]string{"NODE_ID": node, "LIMIT": strconv.FormatInt(limit, 10), "FOREIGN": strconv.FormatInt(foreign, 10)}
}

// Do carries out an action of the definition for a node, with the numbers that it may ask for. It returns when the action is over; an error has what it
// wrote, or the status that it was answered with.
func (d *Definition) Do(ctx context.Context, a Action, node string, limit, foreign int64) error {
	values := actionValues(node, limit, foreign)
	if a.HTTP != nil {
		return a.HTTP.do(ctx, values)
	}
	words, err := expandAll(a.Command, values)
	if err != nil {
		return err
	}
	cmd, err := d.executable(words)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second // a command may leave something running that has its output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("run %q: %w", words, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case err = <-ended:
	case <-ctx.Done():
		_ = cmd.Process.Kill() // one that has ended needs none
		<-ended
		err = ctx.Err()
	}
	if err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("run %q: %w; it wrote: %s", words, err, cmp.Or(strings.TrimSpace(clip(out.String())), "nothing"))
	}
	return nil
}

func (c HTTPCall) do(ctx context.Context, values map[string]string) error {
	url, err := expand(c.URL, values)
	if err != nil {
		return err
	}
	body, err := expand(c.Body, values)
	if err != nil {
		return err
	}
	method := cmp.Or(c.Method, http.MethodPut)
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err // it names method and URL
	}
	defer resp.Body.Close() // read as far as is of use
	if resp.StatusCode >= http.StatusBadRequest {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, maxOutput)) // for the message only
		return fmt.Errorf("%s %s: status %s: %s", method, url, resp.Status, strings.TrimSpace(string(text)))
	}
	return nil
}

func clip(s string) string {
	if len(s) > maxOutput {
		return s[len(s)-maxOutput:]
	}
	return s
}
