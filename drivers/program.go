package drivers

import (
	"os"

	"headroom/drivers/hostpathlike"
	"headroom/drivers/personas"
	"headroom/drivers/steady"
	"headroom/e2e/framework/entry"
)

// Drivers among the programs of this binary.
const (
	steadyProgram   = "steady"
	hostpathProgram = "hostpathlike"
)

// Programs are the drivers among the programs of this binary, by the names that package entry knows them by.
func Programs() []string { return []string{steadyProgram, hostpathProgram} }

func init() {
	entry.Register(steadyProgram, func(args []string) int {
		return steady.Program{Persona: mistakes, Stderr: os.Stderr}.Run(args)
	})
	entry.Register(hostpathProgram, func(args []string) int { return hostpathlike.Run(args, os.Stderr) })
}

func mistakes(persona string) (steady.Mistakes, error) {
	p, err := personas.Find(persona)
	if err != nil {
		return steady.Mistakes{}, err
	}
	return p.Mistakes(), nil
}
