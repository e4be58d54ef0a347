package metrics

// A Metric is one measurement.
type Metric struct {
	Name   string // with dots, like the names of OpenTelemetry
	Kind   Kind
	Unit   string // "s", or the counted thing in braces, like an annotation of UCUM
	Help   string
	Label  string    // the label beside the class; empty for none
	Values []string  // the possible values of Label
	Bounds []float64 // of a histogram: the upper bounds of its buckets
	Whole  bool      // of the whole process, without a class
}

// A Kind is the kind of a metric.
type Kind int

// The kinds of metrics.
const (
	Counter   Kind = iota // only rises
	Gauge                 // rises and falls
	Histogram             // counts values by their size
)

// The units of the measurements, beside seconds.
const (
	seconds = "s"
	claims  = "{claim}"
	leases  = "{lease}"
)

// The values of labels.
const (
	fromStore   = "store"
	fromProcess = "process"
	confirmed   = "confirmed"
	unknown     = "unknown"
)

// reasons are the values of the label of losses: what ended the lease, in a word.
var reasons = []string{"expired", "removed", "suspended", "held_long", "shutdown", "session_over", "unfit", "broken",
	unknown}

// Waits may be as short as a hand-over between two goroutines, and holds as long as a night's work. Margins are small
// compared with a ttl, which is 15 s by default.
var (
	waitBounds   = []float64{.0001, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300}
	holdBounds   = []float64{.001, .005, .01, .05, .1, .5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400}
	marginBounds = []float64{.1, .25, .5, 1, 1.5, 2, 3, 4, 5, 7.5, 10, 15, 30, 60}
)

// The metrics.
var (
	wait = &Metric{Name: "stile.lock.wait.duration", Kind: Histogram, Unit: seconds, Bounds: waitBounds,
		Help: "How long the callers waited that got the lock."}
	hold = &Metric{Name: "stile.lock.hold.duration", Kind: Histogram, Unit: seconds, Bounds: holdBounds,
		Help: "How long leases were held until they were released or lost."}
	margin = &Metric{Name: "stile.lock.renewal.margin", Kind: Histogram, Unit: seconds, Bounds: marginBounds,
		Help: "How much of the lease was left when the store confirmed its renewal."}
	acquisitions = &Metric{Name: "stile.lock.acquisitions", Unit: leases, Label: "source",
		Values: []string{fromStore, fromProcess},
		Help:   "Leases that began, by what granted them: the store, or the turn that another goroutine of this process had."}
	waits = &Metric{Name: "stile.lock.waits", Unit: claims,
		Help: "Claims that had to stand in the store's queue."}
	releases = &Metric{Name: "stile.lock.releases", Unit: leases, Label: "outcome", Values: []string{confirmed, unknown},
		Help: "Leases that were released, by whether the store is known to have done it."}
	losses = &Metric{Name: "stile.lock.losses", Unit: leases, Label: "reason", Values: reasons,
		Help: "Leases that ended before they were released, by reason."}
	nearMisses = &Metric{Name: "stile.lock.near_misses", Unit: "{renewal}",
		Help: "Renewals that the store confirmed when little of the lease was left."}
	jeopardies = &Metric{Name: "stile.lock.jeopardies", Unit: leases,
		Help: "Leases whose renewal began to fail, and was tried again."}
	leaks = &Metric{Name: "stile.lock.leaks", Unit: leases,
		Help: "Leases that the program forgot to release, and that are still held and renewed."}
	asks = &Metric{Name: "stile.lock.asks", Unit: "{request}",
		Help: "Requests of others that a holder give the lock up."}
	held = &Metric{Name: "stile.lock.held", Kind: Gauge, Unit: leases,
		Help: "Leases that are held now."}
	dropped = &Metric{Name: "stile.observer.dropped", Unit: "{event}", Whole: true,
		Help: "Events that were dropped, and are in no other metric, since the observer was too slow."}
)

// All has the metrics, in the order of the reference page.
var All = []*Metric{
	wait, hold, margin, acquisitions, waits, releases, losses, nearMisses, jeopardies, leaks, asks, held, dropped,
}
