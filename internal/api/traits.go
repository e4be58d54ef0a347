package api

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"time"

	"github.com/stilelock/stile/driver"
)

// StoreTraits are [driver.Traits].
type StoreTraits struct {
	Store       string        `json:"store"`
	Server      string        `json:"server,omitempty"`
	Ordered     bool          `json:"ordered"`
	Shared      bool          `json:"shared"`
	Permits     bool          `json:"permits"`
	Delay       bool          `json:"delay"`
	InSession   bool          `json:"in_session"`
	OwnClient   bool          `json:"own_client"`
	FullWait    bool          `json:"full_wait"`
	Amends      bool          `json:"amends"`
	ShortRecord bool          `json:"short_record"`
	Asks        bool          `json:"asks"`
	HearsBreak  bool          `json:"hears_break"`
	Fencing     driver.Grade  `json:"fencing"`
	Restart     bool          `json:"restart"`
	Failover    bool          `json:"failover"`
	Clock       string        `json:"clock"`
	Wake        string        `json:"wake"`
	MinTTL      time.Duration `json:"min_ttl_ns"`
	MaxTTL      time.Duration `json:"max_ttl_ns"`
	Granularity time.Duration `json:"granularity_ns"`
	Session     time.Duration `json:"session_ns"`
	Notes       []string      `json:"notes,omitempty"`
	Warnings    []Warning     `json:"warnings,omitempty"`
}

// A Warning is a [driver.Warning].
type Warning struct {
	Text  string `json:"text"`
	Mend  string `json:"mend,omitempty"`
	Unfit bool   `json:"unfit,omitempty"`
}

// NewTraits returns the traits for an answer.
func NewTraits(t driver.Traits) *StoreTraits {
	w := &StoreTraits{
		Store: t.Store, Server: t.Server, Ordered: t.Ordered, Shared: t.Shared, Permits: t.Permits, Delay: t.Delay,
		InSession: t.InSession, OwnClient: t.OwnClient, FullWait: t.FullWait, Amends: t.Amends, ShortRecord: t.ShortRecord,
		Asks: t.Asks, HearsBreak: t.HearsBreak, Fencing: t.Fencing, Restart: t.Restart, Failover: t.Failover,
		Clock: t.Clock, Wake: t.Wake, MinTTL: t.MinTTL, MaxTTL: t.MaxTTL, Granularity: t.Granularity, Session: t.Session,
		Notes: t.Notes,
	}
	for _, x := range t.Warnings {
		w.Warnings = append(w.Warnings, Warning(x))
	}
	return w
}

// Driver returns the traits for a driver. An unknown grade of fencing counts as none.
func (t *StoreTraits) Driver() driver.Traits {
	d := driver.Traits{
		Store: t.Store, Server: t.Server, Ordered: t.Ordered, Shared: t.Shared, Permits: t.Permits, Delay: t.Delay,
		InSession: t.InSession, OwnClient: t.OwnClient, FullWait: t.FullWait, Amends: t.Amends, ShortRecord: t.ShortRecord,
		Asks: t.Asks, HearsBreak: t.HearsBreak, Fencing: t.Fencing, Restart: t.Restart, Failover: t.Failover,
		Clock: t.Clock, Wake: t.Wake, MinTTL: t.MinTTL, MaxTTL: t.MaxTTL, Granularity: t.Granularity, Session: t.Session,
		Notes: t.Notes,
	}
	if d.Fencing < driver.NoFencing || d.Fencing > driver.DurableFencing {
		d.Fencing = driver.NoFencing
	}
	for _, x := range t.Warnings {
		d.Warnings = append(d.Warnings, driver.Warning(x))
	}
	return d
}

// Tag returns a short text that differs for different traits, for the header [TraitsTag].
func (t *StoreTraits) Tag() string {
	text, err := json.Marshal(t)
	if err != nil {
		return ""
	}
	sum := fnv.New64a()
	sum.Write(text)
	return fmt.Sprintf("%016x", sum.Sum64())
}
