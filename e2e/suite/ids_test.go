package suite

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"headroom/e2e/framework/run"
	"headroom/e2e/invariants"
)

// idForm leaves nothing in an id that a regular expression, a label filter, a shell or a file name takes for something else.
var idForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// TestSpecIDsAreStable holds that ids which were once released stay: reports, --focus, --rerun-failed and people's notes name them. An id that is
// added here is promised for good.
func TestSpecIDsAreStable(t *testing.T) {
	text, err := os.ReadFile("testdata/ids.txt")
	if err != nil {
		t.Fatal(err)
	}
	released := strings.Fields(string(text))
	for _, id := range gone(released, run.Requirements()) {
		t.Errorf("spec %q was released and is gone: keep the id, whatever becomes of the spec", id)
	}
	if got := gone([]string{"count-drop", "never-was"}, run.Requirements()); !slices.Equal(got, []string{"never-was"}) {
		t.Errorf("want an id that is gone to be found, got %q", got)
	}
	for _, r := range run.Requirements() {
		if !idForm.MatchString(r.ID) {
			t.Errorf("spec %q: want an id of the form %s", r.ID, idForm)
		}
		if _, taken := invariants.Find(r.ID); taken {
			t.Errorf("spec %q: an invariant has that name, and reports name both", r.ID)
		}
		if got, err := Select("^"+r.ID+"$", ""); err != nil || !slices.Equal(got, []string{r.ID}) {
			t.Errorf("--focus ^%s$: want it alone, got %v (%v)", r.ID, got, err)
		}
		if !regexp.MustCompile(Focus([]string{r.ID})).MatchString("headroom conformance " + r.ID) {
			t.Errorf("%s: its Ginkgo spec is not found by its id", r.ID)
		}
	}
}

// gone are those ids that no requirement has.
func gone(ids []string, all []run.Requirement) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		return slices.ContainsFunc(all, func(r run.Requirement) bool { return r.ID == id })
	})
}
