// Package otelstile makes OpenTelemetry measure the leases of a client of stile:
//
//	metrics, err := otelstile.New(nil)
//	...
//	locks, err := stile.Open(ctx, url, &stile.Options{Observer: metrics.Observer()})
//
// docs/reference/metrics.md says what each instrument means and when to raise an alarm. The instruments and their buckets
// are the same as in adapters/promstile.
//
// Names of locks are not attributes, since there may be one for each order that was ever paid. [Options.Class] maps a name
// to one of a few classes, which is the attribute stile.lock.class.
//
// An observer makes no spans. It gets an event of a lease after the call has returned, without the context of that call, so
// a span would have no parent, and measurements have no exemplars.
package otelstile
