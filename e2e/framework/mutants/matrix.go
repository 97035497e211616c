package mutants

import (
	"fmt"
	"strings"

	"headroom/e2e/framework/report"
)

// letters are those of a cell, by what became of the root.
var letters = map[report.Status]string{
	report.Violated: "R", report.Held: ".", report.Inconclusive: "?", report.KnownUpstream: "?", report.NotJudged: "n",
}

// legend says what they mean.
const legend = "R caught by its root; . the root held; ? inconclusive; n the root was not judged; X violated what it must not; c the control held\n"

// Matrix is what became of each driver in the plan of each seed, with what caught it, and then of the control.
func Matrix(lines []Line, r Results) (string, error) {
	controls, err := Controls(lines, r)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	seeds := 0
	var first int64 = 1
	for _, l := range lines {
		if len(l.Plans) > seeds {
			seeds, first = len(l.Plans), l.Plans[0].Seed
		}
	}
	fmt.Fprintf(&out, "%-30s", "DRIVER")
	for i := range seeds {
		fmt.Fprintf(&out, "%3d", first+int64(i))
	}
	out.WriteString("  FAULTS\n")
	for _, l := range lines {
		fmt.Fprintf(&out, "%-30s", l.Name())
		for _, p := range l.Plans {
			fmt.Fprintf(&out, "%3s", l.cell(p, r))
		}
		fmt.Fprintf(&out, "%s  %s\n", strings.Repeat("   ", seeds-len(l.Plans)), l.Says(r))
	}
	for _, c := range controls {
		p := c.Plans[0]
		fmt.Fprintf(&out, "%-30s", c.Name())
		for i := range seeds {
			cell := ""
			if first+int64(i) == p.Seed {
				cell = c.cell(p, r)
			}
			fmt.Fprintf(&out, "%3s", cell)
		}
		fmt.Fprintf(&out, "  %s\n", strings.Join(p.Faults, ","))
	}
	return out.String() + legend, nil
}

func (l Line) cell(p Plan, r Results) string {
	row, played := r.Of(p)
	switch {
	case !played:
		return ""
	case !row.Caught() && len(l.Strays(row)) > 0:
		return "X"
	case l.Persona == nil:
		return "c"
	}
	return letters[report.Status(row.Root)]
}

// Says is what became of a persona, in words.
func (l Line) Says(r Results) string {
	if l.Persona.Chaos.Never != "" {
		return "no plan can show it: " + l.Persona.Chaos.Never
	}
	faults := strings.Join(l.Plans[0].Faults, ",")
	p, row, caught := l.Caught(r)
	if !caught {
		return faults + ": not caught"
	}
	text := fmt.Sprintf("%s: caught at seed %d by %s", faults, p.Seed, l.Root())
	if strays := l.Strays(row); len(strays) > 0 {
		text += "; also " + strings.Join(strays, " ") + ", which it must not break"
	}
	return text
}
