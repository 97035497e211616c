package run

import (
	"context"
	"errors"
	"testing"
)

func TestWhile(t *testing.T) {
	ended := make(chan struct{})
	ctx, release := while(t.Context(), ended)
	defer release()
	if err := ctx.Err(); err != nil {
		t.Fatalf("while the cluster lives: want no error, got %v", err)
	}
	close(ended)
	<-ctx.Done()
	if err := context.Cause(ctx); !errors.Is(err, errEnded) {
		t.Errorf("after the cluster's end: want %v, got %v", errEnded, err)
	}
	for name, ended := range map[string]chan struct{}{"a cluster that lives": make(chan struct{}), "a cluster of another process": nil} {
		outer, cancel := context.WithCancel(t.Context())
		ctx, release := while(outer, ended)
		cancel()
		<-ctx.Done()
		if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: want %v, got %v", name, context.Canceled, err)
		}
		release()
	}
}
