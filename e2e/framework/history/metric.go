package history

// PrefixMetric begins the sources of metrics: metric/<writer>. Key is the component that was asked.
const PrefixMetric = "metric/"

// RejectionsMetric counts the pods that a kubelet rejected, by reason.
const RejectionsMetric = "kubelet_admission_rejections_total"

// Metric is the body of metric/* events: one sample of a component, read when the event was written. A counter that is not there yet is 0.
type Metric struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	Value  float64           `json:"value"`
}
