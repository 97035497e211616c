// Package personatest tests the suite with drivers that are wrong on purpose.
//
// Contract: the reference driver passes every spec and invariant; each persona is caught by the invariant that it declares as its root, and breaks
// nothing but what it declares. A persona that is not caught is a hole in the suite, anything else that breaks is a false alarm. The runs are those
// of the headroom command itself, on real components, each in a cluster of its own, and side by side. A persona's run has the specs that the persona
// names; the flag -personas chooses the personas, and the matrix of who broke what is printed at the end.
//
// It has tests only, and leaves out the specs that wait two minutes for a rejection: no persona needs them to be caught.
package personatest
