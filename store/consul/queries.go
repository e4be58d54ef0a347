package consul

import "net/http"

const (
	// usualLimit is how many connections an agent allows a client by default (http_max_conns_per_client).
	usualLimit = 200

	// mostLimit is the highest limit that a driver makes use of.
	mostLimit = 10_000
)

// queries bounds the blocking queries that are open, since each takes a connection. A waiting claim without a query polls. A
// claim that holds asks only so that a break is heard of before the next renewal, so such queries take half of the room at
// most.
type queries struct {
	all     chan struct{} // has an element for each open query
	holding chan struct{} // has an element for each of these that is about a claim that holds
}

// queriesOf returns the queries of a driver whose agent allows a client so many connections. Another fifth is for the other
// requests, and the last fifth for other programs at the same address.
func queriesOf(limit int) *queries {
	most := max(2, limit*3/5)
	return &queries{all: make(chan struct{}, most), holding: make(chan struct{}, most/2)}
}

// connsOf returns how many connections a driver has at most if its agent allows a client so many.
func connsOf(limit int) int { return max(3, limit*4/5) }

// take reports whether a query may be opened.
func (q *queries) take(holding bool) bool {
	if holding {
		select {
		case q.holding <- struct{}{}:
		default:
			return false
		}
	}
	select {
	case q.all <- struct{}{}:
		return true
	default:
	}
	if holding {
		<-q.holding
	}
	return false
}

// free is the reverse of take.
func (q *queries) free(holding bool) {
	<-q.all
	if holding {
		<-q.holding
	}
}

func (q *queries) open() int { return len(q.all) }

// allow takes the agent's limit of connections, before the driver is in use. 0 means that the agent has none.
func (d *Driver) allow(limit int) {
	if limit <= 0 || limit > mostLimit {
		limit = mostLimit
	}
	d.queries = queriesOf(limit)
	if t, ok := d.agent.client.Transport.(*http.Transport); ok && d.agent.owned && limit != usualLimit {
		wider := t.Clone()
		wider.MaxIdleConnsPerHost, wider.MaxConnsPerHost = connsOf(limit), connsOf(limit)
		t.CloseIdleConnections()
		d.agent.client = &http.Client{Transport: wider}
	}
}
