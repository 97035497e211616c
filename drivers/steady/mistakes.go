package steady

import (
	"context"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc/codes"

	"headroom/drivers/steady/policy"
)

// Mistakes are the places at which a driver can be made to do wrong. What is nil stays right. One value serves one instance of the driver, so
// that a mistake may keep state between calls.
type Mistakes struct {
	// Figures changes the policy's figures; what the driver declares stays as it was.
	Figures func(policy.Config) policy.Config
	// Backend changes what the driver, its policy included, sends to and hears from the backend.
	Backend func(Backend) Backend
	// NodeInfo changes what NodeGetInfo answers. right is the right answer, its own to change; failing says that the backend did not answer
	// the last query.
	NodeInfo func(ctx context.Context, right *csi.NodeGetInfoResponse, failing bool) (*csi.NodeGetInfoResponse, error)
	// Lease changes what NodeGetInfo answers where it depends on whether the instance holds the node's lease; dir is where the instance keeps state.
	Lease func(dir string, release int64, holds bool, right *csi.NodeGetInfoResponse) *csi.NodeGetInfoResponse
	// Code changes the code of a failed ControllerPublishVolume; cause is the backend's error where it came to ask, right the right code.
	Code func(cause error, right codes.Code) codes.Code
	// Create and Delete are called in the place of what makes a volume in the backend, and of what takes it away. do does what is right; an error is a gRPC
	// status.
	Create, Delete func(ctx context.Context, do func() error) error
}

// Of returns the configuration and backend as the mistakes have them.
func (m Mistakes) Of(c policy.Config, b Backend) (policy.Config, Backend) {
	if m.Figures != nil {
		c = m.Figures(c)
	}
	if m.Backend != nil {
		b = m.Backend(b)
	}
	return c, b
}
