// Package killtest shows that nothing of a run outlives it, however the run ends.
//
// Contract: it kills real runs of the headroom command with SIGKILL, in every phase and at every place (the command, a spec process, the cell's
// first process), and looks with eyes of its own, /proc and the mount table, for what is left: processes, mounts, namespaces. The detector is
// tested too: strays that are made on purpose must be found. A killed run must say what happened, and its directory must not be judged as held.
//
// It holds tests only. It does not look at what a run finds out, and it cannot see a namespace that only the kernel still holds.
package killtest
