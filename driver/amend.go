package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

var errWaits = errors.New("a claim that waits cannot be amended; enter another one in its place")

// Amended returns a claim's weight and record after this renewal, given its weight and record in the store. Without an
// Amend, they stay. It is the rule for all stores, and decides only by the store's data. So an amendment that arrives twice
// is applied once, and an amendment that arrives after a later one is not applied:
//
//   - A claim that waits is not amended.
//   - A weight only falls: a claim with a smaller weight keeps it.
//   - A record is replaced if it is Claim.Record. The caller gives no claim the same record a second time. The error is
//     a [*RecordError] if the claim has neither that record nor the new one.
//
// Every error is a refusal, and then neither changes.
func (c *Claim) Amended(weight int64, record string, holds bool) (int64, string, error) {
	a := c.Amend
	switch {
	case a == nil:
		return weight, record, nil
	case a.Weight < 0 || a.Weight > c.Weight:
		return weight, record, Refused(fmt.Errorf("a claim of weight %d cannot be amended to %d: a weight only falls", c.Weight, a.Weight))
	case len(a.Record) > MaxRecord:
		return weight, record, Refused(fmt.Errorf("the record has %d bytes; the limit is %d", len(a.Record), MaxRecord))
	case !holds:
		return weight, record, Refused(errWaits)
	case a.Record != "" && record != a.Record && record != c.Record:
		return weight, record, &RecordError{Have: record}
	}
	if a.Weight != 0 {
		weight = min(weight, a.Weight)
	}
	if a.Record != "" {
		record = a.Record
	}
	return weight, record, nil
}

// Amending reports whether any claim in a renewal has an Amend.
func Amending(cs []*Claim) bool {
	return slices.ContainsFunc(cs, func(c *Claim) bool { return c.Amend != nil })
}

// Unamended renews the claims without an Amend, and answers the others with [ErrUnsupported]. A driver whose traits lack
// Amends renews with it.
func Unamended(ctx context.Context, cs []*Claim, renew func(context.Context, []*Claim) []Renewal) []Renewal {
	answers := make([]Renewal, len(cs))
	var (
		plain []*Claim
		index []int
	)
	for i, c := range cs {
		if c.Amend != nil {
			answers[i].Err = ErrUnsupported
			continue
		}
		plain, index = append(plain, c), append(index, i)
	}
	if len(plain) == 0 {
		return answers
	}
	for i, a := range renew(ctx, plain) {
		answers[index[i]] = a
	}
	return answers
}
