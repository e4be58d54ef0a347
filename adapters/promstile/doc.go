// Package promstile makes Prometheus measure the leases of a client of stile:
//
//	metrics := promstile.New(nil)
//	prometheus.MustRegister(metrics)
//	locks, err := stile.Open(ctx, url, &stile.Options{Observer: metrics.Observer()})
//
// docs/reference/metrics.md says what each metric means and when to raise an alarm. The folder has dashboard.json, a
// dashboard for Grafana, and alerts.yaml, rules for Prometheus.
//
// Names of locks are not labels, since there may be one for each order that was ever paid. [Options.Class] maps a name to
// one of a few classes, which is the label class.
package promstile
