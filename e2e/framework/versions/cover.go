package versions

import (
	"fmt"
	"slices"
)

// axes are what varies from one combination to another.
var axes = []func(Combination) string{
	func(c Combination) string { return "kube-apiserver " + c.APIServer.String() },
	func(c Combination) string {
		return "kube-controller-manager " + c.ControllerManager.String() + ", kube-scheduler " + c.Scheduler.String()
	},
	func(c Combination) string { return "kubelet " + c.Kubelet.String() },
	func(c Combination) string { return fmt.Sprintf("csi-attacher %s %s", c.Attacher, c.AttacherGate) },
}

// pair is two component versions that meet in a combination.
type pair [2]string

func pairs(c Combination) []pair {
	var all []pair
	for i := range axes {
		for j := i + 1; j < len(axes); j++ {
			all = append(all, pair{axes[i](c), axes[j](c)})
		}
	}
	return all
}

// Cover chooses from supported combinations a small set in which every pair of component versions that meets in one of them meets at least once. The
// choice depends on nothing but the list: each time the combination is taken whose new pairs weigh most, where a pair weighs the more the fewer
// combinations have it; of equals the last, so that newer versions are preferred. The result is in the order of the list.
//
// A defect of a skew lies, as a rule, between two components. A covering set grows with the product of the two axes that have most versions, not with
// that of all.
func Cover(supported []Combination) []Combination {
	missing := map[pair]float64{} // by weight
	for _, c := range supported {
		for _, p := range pairs(c) {
			missing[p]++
		}
	}
	for p, n := range missing {
		missing[p] = 1 / n
	}
	var chosen []int
	for len(missing) > 0 {
		best, most := 0, 0.0
		for i, c := range supported {
			brings := 0.0
			for _, p := range pairs(c) {
				brings += missing[p]
			}
			if brings > most-equal {
				best, most = i, max(brings, most)
			}
		}
		for _, p := range pairs(supported[best]) {
			delete(missing, p)
		}
		chosen = append(chosen, best)
	}
	chosen = spare(supported, chosen)
	slices.Sort(chosen)
	cover := make([]Combination, 0, len(chosen))
	for _, i := range chosen {
		cover = append(cover, supported[i])
	}
	return cover
}

// equal is how near two sums of weights are that are the same.
const equal = 1e-9

// spare drops what was chosen early and became superfluous by what was chosen later.
func spare(supported []Combination, chosen []int) []int {
	times := map[pair]int{}
	for _, i := range chosen {
		for _, p := range pairs(supported[i]) {
			times[p]++
		}
	}
	return slices.DeleteFunc(chosen, func(i int) bool {
		own := pairs(supported[i])
		if slices.ContainsFunc(own, func(p pair) bool { return times[p] == 1 }) {
			return false
		}
		for _, p := range own {
			times[p]--
		}
		return true
	})
}

// Shard is one of several parts of a list. Index counts from 1.
type Shard struct{ Index, Of int }

// ParseShard reads "2/5".
func ParseShard(s string) (Shard, error) {
	var sh Shard
	if n, err := fmt.Sscanf(s, "%d/%d", &sh.Index, &sh.Of); n != 2 || err != nil || fmt.Sprintf("%d/%d", sh.Index, sh.Of) != s {
		return Shard{}, fmt.Errorf("shard %q: want INDEX/NUMBER, such as 2/5", s)
	}
	if sh.Of < 1 || sh.Index < 1 || sh.Index > sh.Of {
		return Shard{}, fmt.Errorf("shard %q: want an index from 1 to the number of shards", s)
	}
	return sh, nil
}

// Part is the shard's part of a list. Neighbours stay together: combinations of one API server, which come after each other, then need few binaries
// per shard. Shards differ by one at most; where there are more shards than items, some are empty.
func (s Shard) Part(all []Combination) []Combination {
	return all[len(all)*(s.Index-1)/s.Of : len(all)*s.Index/s.Of]
}
