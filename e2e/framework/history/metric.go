package history

// PrefixMetric begins the sources of what components count of themselves: metric/<component>.
const PrefixMetric = "metric/"

// MetricFlushed counts the pods that kube-scheduler (1.36 and later) bound only because they were flushed from its queue after 5 minutes.
const MetricFlushed = "scheduler_pod_scheduled_after_flush_total"

// Metric is the body of metric/* events; Key is the metric's name. The first reading is written, each one that differs from the one before, and the
// last. A reading that failed is a fail with Error, and so is the first one after that succeeds written, whatever it says.
type Metric struct {
	// Value is the sum over all labels; what only rises begins again at 0 when the component is started anew.
	Value float64 `json:"value"`
	// Absent says that the component does not have the metric: it is of another version.
	Absent bool   `json:"absent,omitempty"`
	Error  string `json:"error,omitempty"`
}
