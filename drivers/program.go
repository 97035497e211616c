package drivers

import (
	"os"

	"headroom/drivers/personas"
	"headroom/drivers/steady"
	"headroom/e2e/framework/entry"
)

// steadyProgram is the reference driver among the programs of this binary.
const steadyProgram = "steady"

func init() {
	entry.Register(steadyProgram, func(args []string) int {
		return steady.Program{Persona: mistakes, Stderr: os.Stderr}.Run(args)
	})
}

func mistakes(persona string) (steady.Mistakes, error) {
	p, err := personas.Find(persona)
	if err != nil {
		return steady.Mistakes{}, err
	}
	return p.Mistakes(), nil
}
