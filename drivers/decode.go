package drivers

import (
	"cmp"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"headroom/e2e/framework/strict"
)

// nameForm is what a driver may be called: the name becomes part of a CSI driver's name, beside a spec's scope.
var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// decode reads a definition. The error lists all that is wrong with it.
func decode(name string, data []byte) (*Definition, error) {
	def, f := read(name, data)
	if err := f.Err(); err != nil {
		return nil, err
	}
	return def, nil
}

// read is decode with the file, for those who have more to say about it.
func read(name string, data []byte) (*Definition, *strict.File) {
	var in File
	f := strict.Decode(name, data, &in)
	if f.Err() != nil {
		return nil, f // later problems would follow from these
	}
	for field, pair := range map[string][2]string{"apiVersion": {in.APIVersion, apiVersion}, "kind": {in.Kind, kind}} {
		if pair[0] != pair[1] {
			f.Fail(field, "write "+pair[1], "want %q, got %q", pair[1], pair[0])
		}
	}
	if !nameForm.MatchString(in.Name) {
		f.Fail("name", "shorten it, and use only these", "want at most 32 lower-case letters, digits and dashes, got %q", in.Name)
	}
	if in.Limit == "" {
		in.Limit = LimitBackend
	}
	oneOf(f, "limit", in.Limit, LimitSources)
	if in.NodeIDs == "" {
		in.NodeIDs = NodeIDsGiven
	}
	oneOf(f, "nodeIDs", in.NodeIDs, NodeIDChoosers)
	controller := in.Controller != nil || in.Pods != nil && in.Pods.Controller != nil
	if in.NodeIDs == NodeIDsOwn && controller {
		f.Fail("nodeIDs", "remove it, and pass ${NODE_ID} to the node's process", "own goes with node processes that serve controller calls, and there is a controller")
	}
	def := &Definition{Name: in.Name, Description: in.Description, Limit: in.Limit, NodeIDs: in.NodeIDs, Figures: in.Figures.check(f), file: name, text: data}
	in.checkRuns(f, def)
	if in.Volumes != nil {
		def.Volumes = *in.Volumes
		def.volumesGiven = !def.Dynamic()
		in.Volumes.check(f, (in.Node == nil || in.Controller != nil) && (in.Pods == nil || in.Pods.Controller != nil))
	}
	if in.Causes != nil {
		def.Causes = *in.Causes
		in.Causes.check(f, in.Limit)
	}
	return def, f
}

// checkRuns looks at the ways in which the driver can run: processes, pods, or both.
func (in File) checkRuns(f *strict.File, def *Definition) {
	if in.Node == nil && in.Pods == nil {
		f.Fail("", "add node.command, or pods with the driver's manifests", `field "node" is missing, and so is "pods"`)
	}
	if in.Node != nil {
		def.node = in.Node.check(f, "node")
	}
	if in.Controller != nil {
		def.controller = in.Controller.check(f, "controller")
		if in.Node == nil {
			f.Fail("controller", "add node, or write pods.controller", "a controller's process without a node's")
		}
	}
	if in.Pods != nil {
		def.pods = in.Pods.check(f)
	}
}

// oneOf refuses a text that is none of those there are.
func oneOf[T ~string](f *strict.File, field string, got T, all []T) {
	if !slices.Contains(all, got) {
		f.Fail(field, "write one of these", "want one of %v, got %q", all, got)
	}
}

// check looks at what the figures mean together.
func (in FiguresFile) check(f *strict.File) Figures {
	out := Figures{
		MinInterval: time.Duration(in.MinInterval), CacheAge: time.Duration(in.CacheAge), LastGoodLife: time.Duration(in.LastGoodLife),
		Step: in.Step, StepInterval: time.Duration(in.StepInterval),
	}
	for field, d := range map[string]time.Duration{"minInterval": out.MinInterval, "cacheAge": out.CacheAge, "lastGoodLife": out.LastGoodLife} {
		if d <= 0 {
			f.Fail("figures."+field, "write a number with a unit, such as 10s or 1m30s", "want a duration above 0, got %s", d)
		}
	}
	if out.CacheAge < out.MinInterval {
		f.Fail("figures.cacheAge", "raise it to minInterval or more", "%s is less than minInterval %s", out.CacheAge, out.MinInterval)
	}
	if out.LastGoodLife < out.CacheAge {
		f.Fail("figures.lastGoodLife", "raise it to cacheAge or more", "%s is less than cacheAge %s", out.LastGoodLife, out.CacheAge)
	}
	switch {
	case out.Step < 0:
		f.Fail("figures.step", "write 0 (not limited) or more", "want a number of volumes, got %d", out.Step)
	case out.Step > 0 && out.StepInterval == 0:
		f.Fail("figures.step", "add stepInterval, such as 10s", "%d without a stepInterval", out.Step)
	case out.Step == 0 && out.StepInterval > 0:
		f.Fail("figures.stepInterval", "add step, or remove stepInterval", "%s without a step", out.StepInterval)
	}
	return out
}

// variable is the name of an environment variable.
var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

func (in ProcessFile) check(f *strict.File, at string) process {
	known := (&Definition{}).values(Instance{})
	if len(in.Command) == 0 {
		f.Fail(at+".command", `write it as a list, such as ["./driver", "--endpoint=${ENDPOINT}"]`, "has no words")
	}
	checkProgram(f, at+".command", in.Command)
	for i, word := range in.Command {
		checkText(f, strict.At(at+".command", i), word, known)
	}
	for _, name := range slices.Sorted(maps.Keys(in.Env)) {
		field := at + ".env." + name
		if !variable.MatchString(name) {
			f.Fail(field, "use letters, digits and underscores", "%q is no name of a variable", name)
		}
		checkText(f, field, in.Env[name], known)
	}
	texts := slices.Concat(in.Command, slices.Collect(maps.Values(in.Env)))
	if len(in.Command) > 0 && !slices.ContainsFunc(texts, func(w string) bool { return strings.Contains(w, "${ENDPOINT}") }) {
		f.Fail(at+".command", "pass the socket to serve on, such as --endpoint=${ENDPOINT}", "has no ${ENDPOINT}")
	}
	if in.Ready == "" {
		in.Ready = ReadySocket
	}
	oneOf(f, at+".ready", in.Ready, Readinesses)
	if f.Has(at+".startLimit") && in.StartLimit <= 0 {
		f.Fail(at+".startLimit", "write a duration such as 1m", "want more than 0, got %s", in.StartLimit)
	}
	return process{words: in.Command, env: in.Env, start: Start{Ready: in.Ready, Limit: time.Duration(in.StartLimit)}}
}

// checkProgram refuses a command that begins with nothing; further words may be empty.
func checkProgram(f *strict.File, field string, words []string) {
	if len(words) > 0 && words[0] == "" {
		f.Fail(strict.At(field, 0), "write the program to run", "want a program, got an empty text")
	}
}

// checkText looks for placeholders that mean nothing.
func checkText(f *strict.File, field, text string, known map[string]string) {
	if _, err := expand(text, known); err != nil {
		f.Fail(field, "correct the name, or write the value itself", "%v", err)
	}
}

func (in Volumes) check(f *strict.File, controller bool) {
	if in.Provisioning != "" {
		oneOf(f, "volumes.provisioning", in.Provisioning, Provisionings)
	}
	if in.Provisioning == Dynamic && !controller {
		f.Fail("volumes.provisioning", "write a controller that serves all nodes, or remove it",
			"dynamic goes with a controller: node processes that serve controller calls know the volumes of their own node only, and a claim is bound before its pod has one")
	}
	seen := map[string]bool{}
	for i, handle := range in.Handles {
		if seen[handle] {
			f.Fail(strict.At("volumes.handles", i), "name another volume", "volume %q is listed twice", handle)
		}
		seen[handle] = true
	}
	if in.Missing != "" && seen[in.Missing] {
		f.Fail("volumes.missing", "name a volume that does not exist", "volume %q is one of handles", in.Missing)
	}
}

// cause is one of Causes.
type cause struct {
	name   string
	action *Action // nil where it is not given
	// quota marks what the backend does by itself.
	quota bool
}

func (in Causes) all() []cause {
	return []cause{
		{"limit", in.Limit, true}, {"foreign", in.Foreign, true}, {"restart", in.Restart, false},
		{"outage.begin", in.Outage.begin(), true}, {"outage.end", in.Outage.end(), true},
		{"throttled.begin", in.Throttled.begin(), true}, {"throttled.end", in.Throttled.end(), true},
	}
}

// check refuses causes that go with another source of the limit, and actions that do nothing.
func (in Causes) check(f *strict.File, limit LimitSource) {
	for _, c := range in.all() {
		if c.action == nil {
			continue
		}
		at := "causes." + c.name
		if c.quota && limit != LimitOwn {
			f.Fail(at, "remove it, or write limit: own", "with limit: %s there is nothing to cause by it", limit)
		}
		c.action.check(f, at, c.name)
	}
}

func (s *Spell) begin() *Action {
	if s == nil {
		return nil
	}
	return &s.Begin
}

func (s *Spell) end() *Action {
	if s == nil {
		return nil
	}
	return &s.End
}

// needed are the placeholders without which an action cannot do what it is for.
var needed = map[string]string{"limit": "LIMIT", "foreign": "FOREIGN"}

// token is an HTTP method, in capitals as all that are known.
var token = regexp.MustCompile("^[A-Z0-9!#$%&'*+.^_`|~-]+$")

// isURL says whether a text is the URL of an HTTP call once its placeholders have values.
func isURL(text string) bool {
	text, err := expand(text, actionValues("node", 1, 1))
	if err != nil {
		return true // a problem already
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return false
	}
	_, err = strconv.ParseUint(cmp.Or(u.Port(), "1"), 10, 16)
	return err == nil
}

func (a Action) check(f *strict.File, at, name string) {
	if (len(a.Command) > 0) == (a.HTTP != nil) {
		f.Fail(at, "give one of them", "want either command or http")
		return
	}
	checkProgram(f, at+".command", a.Command)
	var texts []string
	for i, word := range a.Command {
		checkText(f, strict.At(at+".command", i), word, actionValues("", 0, 0))
		texts = append(texts, word)
	}
	if call := a.HTTP; call != nil {
		for field, text := range map[string]string{"url": call.URL, "body": call.Body} {
			checkText(f, at+".http."+field, text, actionValues("", 0, 0))
		}
		if !isURL(call.URL) {
			f.Fail(at+".http.url", "write it with http:// or https:// and a host", "want a URL, got %q", call.URL)
		}
		if method := cmp.Or(call.Method, http.MethodPut); !token.MatchString(method) {
			f.Fail(at+".http.method", "write it in capitals, such as PUT", "want an HTTP method, got %q", call.Method)
		}
		texts = append(texts, call.URL, call.Body)
	}
	if want := needed[name]; want != "" && !slices.ContainsFunc(texts, func(w string) bool { return strings.Contains(w, "${"+want+"}") }) {
		f.Fail(at, "put ${"+want+"} where the number belongs", "has no ${%s}", want)
	}
}
