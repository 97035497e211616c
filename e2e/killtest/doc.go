// Package killtest shows that nothing of a run outlives it, however the run ends.
//
// Contract: it kills real runs of the headroom command with SIGKILL, in every phase and at every place (the command, a spec process, the cell's
// first process), and looks with eyes of its own, /proc and the mount table, for what is left: processes, mounts, namespaces. The detector is
// tested too: strays that are made on purpose must be found. A killed run must say what happened, and its directory must not be judged as held.
//
// On kind clusters, which outlive a run that is killed, it asks `headroom down --all` for the rest and compares what the container engine has with what
// it had before: nothing may be left, and nothing of anybody else's gone. These tests need an engine and are asked for by HEADROOM_KIND_TEST.
//
// It holds tests only. It does not look at what a run finds out, and it cannot see a namespace that only the kernel still holds.
package killtest
