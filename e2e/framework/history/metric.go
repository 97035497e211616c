package history

// PrefixMetric begins the sources of what components count of themselves: metric/<writer>. Key is the component that was asked.
const PrefixMetric = "metric/"

const (
	// MetricRejections counts the pods that a kubelet rejected, by reason.
	MetricRejections = "kubelet_admission_rejections_total"
	// MetricFlushed counts the pods that kube-scheduler (1.36 and later) bound only because they were flushed from its queue after 5 minutes.
	MetricFlushed = "scheduler_pod_scheduled_after_flush_total"
)

// RejectionReason is the kubelet's reason for rejecting a pod for lack of attach capacity, in the pod's status and as a label of MetricRejections
// (kubernetes pkg/kubelet/volumemanager).
const RejectionReason = "VolumeAttachmentLimitExceeded"

// Metric is the body of metric/* events: one reading of a component's metrics. Of a component that is read again and again, the first reading is
// written, each one that differs from the one before, and the last. A reading that failed is a fail with Error, and so is the first one after that
// succeeds written, whatever it says.
type Metric struct {
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	// Value is the sum over all other labels. A counter with labels is not shown before it counted: it is 0. What only rises begins again at 0 when
	// the component is started anew.
	Value float64 `json:"value"`
	// Absent says that the component does not have the metric: it is of another version, or has not counted yet.
	Absent bool   `json:"absent,omitempty"`
	Error  string `json:"error,omitempty"`
}
