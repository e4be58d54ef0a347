// Package metrics has the measurements of the lock service, and writes them in the text format of Prometheus. They have no
// names of locks, no ids and no principals: names are unbounded, and all may be secret.
//
// The core of stile requires only the standard library, so the service writes the format itself. A test of
// adapters/promstile reads it with the parser of Prometheus.
package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// TextType is the media type of the format.
const TextType = "text/plain; version=0.0.4; charset=utf-8"

// A kind is the kind of a metric.
type kind string

const (
	counter   kind = "counter"   // only rises
	gauge     kind = "gauge"     // rises and falls
	histogram kind = "histogram" // counts values by their size
)

// A Metric is one measurement, with a series for each set of its labels' values. Many goroutines may use it.
type Metric struct {
	name, help string
	kind       kind
	labels     []string
	bounds     []float64 // of a histogram: the upper bounds of its buckets

	mu     sync.Mutex // guards series
	series map[string]*series
}

// A series is the figures for one set of values.
type series struct {
	values []string
	sum    float64  // of a counter or a gauge: the value
	counts []uint64 // of a histogram: the values in each bucket; the last has those above all bounds
}

// Add adds to a counter or a gauge, for the values of its labels. Adding 0 begins a series: nobody can see the rise of a
// counter that appears with the value one.
func (m *Metric) Add(value float64, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.atLocked(labels).sum += value
}

// Set sets a gauge.
func (m *Metric) Set(value float64, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.atLocked(labels).sum = value
}

// Observe adds a value to a histogram.
func (m *Metric) Observe(value float64, labels ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.atLocked(labels)
	if s.counts == nil {
		s.counts = make([]uint64, len(m.bounds)+1)
	}
	i, _ := slices.BinarySearch(m.bounds, value)
	s.counts[i]++
	s.sum += value
}

// atLocked returns the series of some values, and begins it. No value has the separator, which is not UTF-8.
func (m *Metric) atLocked(values []string) *series {
	key := strings.Join(values, "\xff")
	s := m.series[key]
	if s == nil {
		s = &series{values: slices.Clone(values)}
		m.series[key] = s
	}
	return s
}

// write writes the metric in the text format. A metric without a series has no lines.
func (m *Metric) write(b *bytes.Buffer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.series) == 0 {
		return
	}
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", m.name, m.help, m.name, m.kind)
	for _, key := range slices.Sorted(maps.Keys(m.series)) {
		s := m.series[key]
		if m.kind != histogram {
			m.line(b, "", s.values, "", s.sum)
			continue
		}
		count := uint64(0)
		for i, n := range s.counts {
			most := "+Inf"
			if i < len(m.bounds) {
				most = strconv.FormatFloat(m.bounds[i], 'g', -1, 64)
			}
			count += n
			m.line(b, "_bucket", s.values, most, float64(count))
		}
		m.line(b, "_sum", s.values, "", s.sum)
		m.line(b, "_count", s.values, "", float64(count))
	}
}

var escape = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// line writes a line of a series; most is the upper bound of a bucket.
func (m *Metric) line(b *bytes.Buffer, suffix string, values []string, most string, value float64) {
	pairs := make([]string, 0, len(values)+1)
	for i, v := range values {
		pairs = append(pairs, m.labels[i]+`="`+escape.Replace(v)+`"`)
	}
	if most != "" {
		pairs = append(pairs, `le="`+most+`"`)
	}
	b.WriteString(m.name + suffix)
	if len(pairs) > 0 {
		b.WriteString("{" + strings.Join(pairs, ",") + "}")
	}
	b.WriteString(" " + strconv.FormatFloat(value, 'g', -1, 64) + "\n")
}
