package local

import (
	"fmt"
	"os"
	"strings"
)

func dumpCPU(root int) {
	parent := map[int]int{}
	entries, _ := os.ReadDir("/proc")
	type row struct {
		name string
		cpu  float64
	}
	rows := map[int]row{}
	for _, e := range entries {
		var pid int
		if _, err := fmt.Sscan(e.Name(), &pid); err != nil {
			continue
		}
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		i := strings.LastIndexByte(string(b), ')')
		if i < 0 {
			continue
		}
		f := strings.Fields(string(b)[i+1:])
		var ut, st int
		fmt.Sscan(f[11], &ut)
		fmt.Sscan(f[12], &st)
		fmt.Sscan(f[1], &i)
		parent[pid] = i
		cmd, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		n, _, _ := strings.Cut(string(cmd), "\x00")
		rows[pid] = row{n[strings.LastIndexByte(n, '/')+1:], float64(ut+st) / 100}
	}
	total := 0.0
	for pid, r := range rows {
		for p := pid; p > 1; p = parent[p] {
			if p == root {
				fmt.Printf("   %6.2f %s\n", r.cpu, r.name)
				total += r.cpu
				break
			}
		}
	}
	fmt.Printf("   %6.2f total\n", total)
}
