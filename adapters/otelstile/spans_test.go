package otelstile

import (
	"maps"
	"testing"

	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/memory"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
)

// The page says that a lease's context carries the span in which the lock was taken, so spans of the work under it are
// children of that span.
func TestSpans(t *testing.T) {
	recorder := tracetest.NewSpanRecorder()
	tracer := trace.NewTracerProvider(trace.WithSpanProcessor(recorder)).Tracer("shop")
	locks, err := stile.Open(t.Context(), "memory://", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer locks.Close()

	ctx, whole := tracer.Start(t.Context(), "locked order")
	_, wait := tracer.Start(ctx, "wait for order")
	lease, err := locks.Mutex("order/4711").Lock(ctx)
	wait.End()
	if err != nil {
		t.Fatal(err)
	}
	_, work := tracer.Start(lease.Context(), "charge")
	work.End()
	if err := lease.Unlock(); err != nil {
		t.Error(err)
	}
	whole.End()
	spans, parents := recorder.Ended(), map[string]string{}
	for _, span := range spans {
		for _, other := range spans {
			if span.Parent().SpanID() == other.SpanContext().SpanID() {
				parents[span.Name()] = other.Name()
			}
		}
	}
	if want := map[string]string{"wait for order": "locked order", "charge": "locked order"}; len(spans) != 3 || !maps.Equal(parents, want) {
		t.Errorf("%d spans, with the parents %v; want 3, with %v", len(spans), parents, want)
	}
}
