package kubelock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/stilelock/stile"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// A Lock is a [resourcelock.Interface]. Make it with [New]. It serves one elector, like a LeaseLock.
//
//	stands ──► leads ──► deposed ──► stands, when the elector has stopped to lead
//	   ▲         │
//	   └─────────┘ the elector gives the lead up, or has stopped to lead
//
// In state leads it has a lease. In state deposed that lease is lost.
type Lock struct {
	client   *stile.Client
	name     string
	identity string

	mu    sync.Mutex
	state state
	lease *stile.Lease                      // in states leads and deposed
	term  resourcelock.LeaderElectionRecord // the elector's last record, in state leads
}

var _ resourcelock.Interface = (*Lock)(nil)

type state int

const (
	stands state = iota
	leads
	deposed
)

// resource is the lock's name in errors.
var resource = schema.GroupResource{Group: "stile", Resource: "elections"}

// New returns the lock of an election. The name is a lock's name in the store, and the identity is unique among all
// candidates: a name of the pod or the host. The caller closes the client when the elector has returned.
func New(client *stile.Client, name, identity string) (*Lock, error) {
	if identity == "" {
		return nil, fmt.Errorf("kubelock: election %q: the identity is empty: it must be one that no other candidate has", name)
	}
	return &Lock{client: client, name: name, identity: identity}, nil
}

// Get returns the leader's record as the store has it now. Since the store has it, its lease is valid, so it counts as
// renewed now. If nobody leads, the error is NotFound of package k8s.io/apimachinery/pkg/api/errors.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	if record := l.own(); record != nil {
		return marshal(record)
	}
	leader, err := l.client.Leader(ctx, l.name)
	switch {
	case err != nil:
		return nil, nil, fmt.Errorf("kubelock: %w", err)
	case !leader.Leads():
		return nil, nil, apierrors.NewNotFound(resource, l.name)
	}
	record := &resourcelock.LeaderElectionRecord{}
	if json.Unmarshal([]byte(leader.Value), record) != nil || record.HolderIdentity == "" { // a candidate of another kind
		record = &resourcelock.LeaderElectionRecord{HolderIdentity: leader.Holder.String(), LeaseDurationSeconds: 1}
	}
	record.RenewTime = metav1.Now()
	return marshal(record)
}

func marshal(record *resourcelock.LeaderElectionRecord) (*resourcelock.LeaderElectionRecord, []byte, error) {
	text, err := json.Marshal(record)
	return record, text, err
}

// own returns the record of this leader.
func (l *Lock) own() *resourcelock.LeaderElectionRecord {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.state != leads {
		return nil
	}
	record := l.term
	return &record
}

// Create takes the lead, if nobody leads. Otherwise the error is AlreadyExists, of package
// k8s.io/apimachinery/pkg/api/errors.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	state := l.state
	l.mu.Unlock()
	switch state {
	case deposed:
		return l.over()
	case leads:
		return l.Update(ctx, record)
	}
	text, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("kubelock: election %q: %w", l.name, err)
	}
	duration := time.Duration(record.LeaseDurationSeconds) * time.Second
	candidate := l.client.Candidate(l.name, string(text)).With(stile.LockOptions{TTL: 2 * duration})
	lease, err := candidate.TryLock(ctx)
	if held, ok := errors.AsType[*stile.HeldError](err); ok {
		return fmt.Errorf("kubelock: %w: %w", held, apierrors.NewAlreadyExists(resource, l.name))
	} else if err != nil {
		return fmt.Errorf("kubelock: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.lease, l.term = leads, lease, record
	return nil
}

// Update confirms the lead, or gives it up if the record has no holder. It does not ask the store: the client renews the
// lease. When it accepts a record, nobody else leads for the record's duration. An error means that this is not certain.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	state, lease := l.state, l.lease
	l.mu.Unlock()
	switch {
	case state == deposed:
		return l.over()
	case state == stands && record.HolderIdentity == "":
		return nil
	case state == stands: // the claim that Get found is gone, or soon will be
		return l.Create(ctx, record)
	case record.HolderIdentity == "":
		return l.giveUp(0)
	}
	if err := lease.Check(); err != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.state = deposed
		return fmt.Errorf("kubelock: %w", err)
	}
	duration := time.Duration(record.LeaseDurationSeconds) * time.Second
	if left := time.Until(lease.Deadline()); left < duration {
		return fmt.Errorf("kubelock: election %q: the store has not renewed the lease: %v of it are left, less than the %v of the elector",
			l.name, max(left, 0).Round(time.Millisecond), duration)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.term = record
	return nil
}

// over returns why nothing can be updated in state deposed.
func (l *Lock) over() error {
	return fmt.Errorf("kubelock: election %q: the term is over until the elector has stopped to lead: %w", l.name, stile.ErrLost)
}

// giveUp ends a term. Others lead after the time to keep.
func (l *Lock) giveUp(keep time.Duration) error {
	l.mu.Lock()
	lease := l.lease
	l.state, l.lease = stands, nil
	l.mu.Unlock()
	if err := lease.UnlockAfter(keep); err != nil {
		return fmt.Errorf("kubelock: %w", err)
	}
	return nil
}

// RecordEvent is called when the elector has stopped leading. Unless it gave the lead up before, its work may not have ended
// yet, so nobody else leads for LeaseDuration; see LeaderElectionConfig.ReleaseOnCancel.
func (l *Lock) RecordEvent(event string) {
	l.mu.Lock()
	lease, duration := l.lease, l.term.LeaseDurationSeconds
	l.mu.Unlock()
	if event == "stopped leading" && lease != nil {
		_ = l.giveUp(time.Duration(duration) * time.Second) // after a failure the lease runs out
	}
}

// Identity returns the identity of this candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe returns the name of the election.
func (l *Lock) Describe() string { return "stile/" + l.name }

// Context returns a context for the work of OnStartedLeading. It ends with the given context, and with the lease of the
// term. [stile.Token] of it is the token of the term. If this lock does not lead, the context has ended, with cause
// [stile.ErrLost].
func (l *Lock) Context(ctx context.Context) (context.Context, context.CancelFunc) {
	l.mu.Lock()
	lease := l.lease
	l.mu.Unlock()
	if lease == nil {
		ctx, cancel := context.WithCancelCause(ctx)
		cancel(fmt.Errorf("kubelock: election %q: this candidate does not lead: %w", l.name, stile.ErrLost))
		return ctx, func() {}
	}
	both, cancel := context.WithCancelCause(lease.Context())
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	return both, func() { stop(); cancel(context.Canceled) }
}
