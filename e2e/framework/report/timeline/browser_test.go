package timeline

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var keep = flag.String("keep", "", "a directory to write the pages of these tests to, to be looked at")

// chromium finds a browser that runs without a display.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("there is no chromium or google-chrome on this machine to run the page's script; install one, such as with `apt-get install chromium`")
	return ""
}

// dom is the page as the browser holds it after its script ran, and then act, which does what a person would.
func dom(t *testing.T, browser, name string, p Page, fragment, act string, width int) string {
	t.Helper()
	dir := t.TempDir()
	if *keep != "" {
		dir = *keep
	}
	path := filepath.Join(dir, name+".html")
	if err := os.WriteFile(path, []byte(render(t, p)+"<script>"+act+"</script>"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir="+t.TempDir(),
		fmt.Sprintf("--window-size=%d,900", width), "--virtual-time-budget=5000", "--dump-dom", "file://"+path+fragment)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", browser, err)
	}
	return string(out)
}

func TestPageInABrowser(t *testing.T) {
	browser := chromium(t)
	svg := regexp.MustCompile(`<svg `)
	for name, tc := range map[string]struct {
		page     Page
		fragment string
		act      string
		width    int
		want     []string
		not      []string
		rows     int // that may be drawn
	}{
		"two nodes": {busy(2).page(), "", "", 1280, []string{"p1-1-n2", "never-unbounded", `class="count"`, `class="fault"`, `class="mark bind"`}, []string{`class="proof"`}, 2},
		"evidence":  {busy(2).page(), "#verdict-1", "", 1280, []string{`class="proof"`, `aria-pressed="true"`, "violated: never-unbounded of p1-1-n1/d"}, nil, 2},
		"fifty":     {busy(50).page(), "", "", 390, []string{"p1-1-n50"}, nil, 50},
		"click": {busy(2).page(), "", `document.querySelectorAll("#verdicts button")[1].click()`, 390,
			[]string{`class="proof"`, "violated: never-unbounded of p1-1-n1/d", `class="row hit"`, "want an answer above 0"}, nil, 2},
		"close": {busy(2).page(), "#verdict-1", `document.dispatchEvent(new KeyboardEvent("keydown", {key: "Escape"}))`, 1280,
			[]string{`<section id="evidence" aria-labelledby="evidence-title" hidden="">`}, []string{`class="proof"`, `aria-pressed="true"`}, 2},
		"keys": {busy(2).page(), "", `const c = document.querySelector(".chart");
			for (const key of ["ArrowRight", "ArrowRight", "+"]) c.dispatchEvent(new KeyboardEvent("keydown", {key}))`, 1280,
			[]string{"+1.0s · allows 5 · answers 5 · count – · attached –", "+0.5s to +60.5s"}, nil, 2},
		"filter by spec": {busy(2).page(), "", `const s = document.getElementById("scope"); s.value = "p1-1"; s.onchange()`, 1280,
			[]string{`<option value="p1-1">count-drop (p1-1)</option>`}, []string{`class="row" hidden=""`}, 2},
		"filter by node": {busy(2).page(), "", `const n = document.getElementById("node"); n.value = "N2"; n.oninput()`, 1280,
			[]string{`class="row" hidden=""`}, []string{`<p id="none">`}, 2},
		"filter all away": {busy(2).page(), "", `const n = document.getElementById("node"); n.value = "n9"; n.oninput()`, 1280, []string{`<p id="none">`}, nil, 0},
		"hostile":         {hostileScript().page(), "#verdict-0", "", 1280, []string{"&lt;img src=x"}, []string{"<img"}, 1},
		"empty":           {newScript().page(), "", "", 390, []string{"The history shows no driver on any node."}, []string{"No node matches."}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			out := dom(t, browser, strings.ReplaceAll(name, " ", "-"), tc.page, tc.fragment, tc.act, tc.width)
			if want := fmt.Sprintf(`data-ready="%d"`, len(tc.page.Rows)); !strings.Contains(out, want) {
				t.Errorf("want %s: the script did not come to its end", want)
			}
			for _, want := range tc.want {
				if !strings.Contains(out, want) {
					t.Errorf("want %q in the document", want)
				}
			}
			for _, bad := range tc.not {
				if strings.Contains(out, bad) {
					t.Errorf("want no %q in the document", bad)
				}
			}
			// Only what is in sight is drawn.
			if drawn := len(svg.FindAllString(out, -1)); tc.rows > 0 && drawn == 0 || tc.rows == 50 && drawn > 25 {
				t.Errorf("want some of %d charts drawn and not those out of sight, got %d", tc.rows, drawn)
			}
		})
	}
}
