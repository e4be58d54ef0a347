package driver

import (
	"fmt"
	"slices"
	"strings"
)

// A Trait is the name of a store's promise, for a program that must not run without it.
type Trait string

// These are the traits that a program can require.
const (
	TraitFencing   Trait = "fencing"         // tokens rise while the store's clock does not run back
	TraitDurable   Trait = "durable-fencing" // tokens rise through every fault but a restore from an old copy
	TraitRestart   Trait = "restart"         // claims survive a restart of the store
	TraitFailover  Trait = "failover"        // claims survive a failover of the store
	TraitOrder     Trait = "order"           // claims hold in the order in which they arrived
	TraitReaders   Trait = "readers"         // readers share a lock
	TraitPermits   Trait = "permits"         // a name can have several permits
	TraitLockDelay Trait = "lock-delay"      // a lease that ran out can keep the lock from others for a while
	TraitAmend     Trait = "amend"           // a holder can change its claim: a leader's value, a writer to a reader
	TraitAsk       Trait = "ask"             // a holder can be asked for its lock
	TraitPush      Trait = "push"            // the store notifies a waiter when it holds
	TraitFit       Trait = "fit"             // no setting lets two hold a lock while nothing fails
)

// requirable are the traits that a program can require, each with a function that checks it.
var requirable = []struct {
	name Trait
	has  func(*Traits) bool
}{
	{TraitFencing, func(t *Traits) bool { return t.Fencing >= ClockFencing }},
	{TraitDurable, func(t *Traits) bool { return t.Fencing >= DurableFencing }},
	{TraitRestart, func(t *Traits) bool { return t.Restart }},
	{TraitFailover, func(t *Traits) bool { return t.Failover }},
	{TraitOrder, func(t *Traits) bool { return t.Ordered }},
	{TraitReaders, func(t *Traits) bool { return t.Shared }},
	{TraitPermits, func(t *Traits) bool { return t.Permits }},
	{TraitLockDelay, func(t *Traits) bool { return t.Delay }},
	{TraitAmend, func(t *Traits) bool { return t.Amends }},
	{TraitAsk, func(t *Traits) bool { return t.Asks }},
	{TraitPush, func(t *Traits) bool { return t.Wake == "push" }},
	{TraitFit, func(t *Traits) bool { return !slices.ContainsFunc(t.Warnings, func(w Warning) bool { return w.Unfit }) }},
}

// Requirable returns the traits that a program can require.
func Requirable() []Trait {
	names := make([]Trait, len(requirable))
	for i, r := range requirable {
		names[i] = r.name
	}
	return names
}

// CheckTraits returns an error that names the unknown traits among those required.
func CheckTraits(required ...Trait) error {
	known := Requirable()
	for _, r := range required {
		if !slices.Contains(known, r) {
			return fmt.Errorf("there is no trait %.64q; there are: %s", string(r), join(known))
		}
	}
	return nil
}

// Lacks returns the required traits that the store does not have.
func (t Traits) Lacks(required ...Trait) (lacking []Trait) {
	for _, r := range requirable {
		if slices.Contains(required, r.name) && !r.has(&t) {
			lacking = append(lacking, r.name)
		}
	}
	return lacking
}

// Require returns an error, marked [ErrUnsupported], if the store lacks a required trait.
func (t Traits) Require(required ...Trait) error {
	if err := CheckTraits(required...); err != nil {
		return err
	}
	lacking := t.Lacks(required...)
	if len(lacking) == 0 {
		return nil
	}
	err := fmt.Errorf("%w: %s lacks %s, which is required", ErrUnsupported, t.Store, join(lacking))
	for _, w := range t.Warnings {
		err = fmt.Errorf("%w; %s", err, strings.TrimSuffix(w.String(), "."))
	}
	return err
}

func join(traits []Trait) string {
	words := make([]string, len(traits))
	for i, t := range traits {
		words[i] = string(t)
	}
	return strings.Join(words, ", ")
}
