package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"

	"google.golang.org/grpc/codes"

	"headroom/e2e/framework/scenario"
)

// errorParams say what calls answer.
type errorParams struct {
	Method string `yaml:"method,omitempty"`
	Times  int    `yaml:"times,omitempty"`
	// Code is a gRPC code by name, such as RESOURCE_EXHAUSTED.
	Code    string `yaml:"code"`
	Message string `yaml:"message,omitempty"`
}

// code reads the name of a code; OK fails nothing.
func (p *errorParams) code() (codes.Code, error) {
	var c codes.Code
	if err := c.UnmarshalJSON([]byte(`"` + p.Code + `"`)); err != nil || c == codes.OK {
		return c, fmt.Errorf("no gRPC error code %q", p.Code)
	}
	return c, nil
}

// Check implements scenario.Checked.
func (p *errorParams) Check() (field, remedy string, err error) {
	_, err = p.code()
	return "code", "write a name such as RESOURCE_EXHAUSTED or UNAVAILABLE", err
}

func init() {
	define(Fault{
		Name: "csi-error", Targets: []scenario.Class{scenario.NodeDriver, scenario.DriverController}, Supports: needsGate,
		Doc: "Calls fail with a gRPC code, without reaching the driver.",
	}, errorParams{Message: "injected"}, func(ctx context.Context, t Target, _ *rand.Rand, p *errorParams) (Heal, error) {
		code, err := p.code()
		if err != nil {
			return nil, err
		}
		rule := callParams{p.Method, p.Times}.rule()
		rule.Code, rule.Message = code, p.Message
		return addRule(ctx, t, rule)
	})
}
