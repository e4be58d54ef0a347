package etcd

import (
	"github.com/stilelock/stile/driver"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// A fault is the meaning of an error that a server answered. The connection is kept, since an answer shows that it works.
// The outcome of an error that is not in the table is unknown if the server was not available, and else refused.
type fault struct {
	says    string         // stands before etcd's own words; {user} and {prefix} are replaced
	outcome driver.Outcome // refused: the request was not applied, and never will be
	passes  bool           // the same request may work a moment later, or at another member
}

// faults has the faults of a changing cluster, of a cluster that needs an operator, and of rights. A missing lease is no
// fault: the claim is gone.
var faults = map[rpctypes.EtcdError]fault{
	// The member answered before it proposed the request to the others.
	row(rpctypes.ErrNoLeader):                   {"etcd does not serve at the moment", driver.OutcomeRefused, true},
	row(rpctypes.ErrNotLeader):                  {"etcd does not serve at the moment", driver.OutcomeRefused, true},
	row(rpctypes.ErrNotCapable):                 {"etcd does not serve at the moment", driver.OutcomeRefused, true},
	row(rpctypes.ErrTooManyRequests):            {"etcd does not serve at the moment", driver.OutcomeRefused, true},
	row(rpctypes.ErrGRPCNotSupportedForLearner): {"this member of etcd only learns yet", driver.OutcomeRefused, true},

	// The member proposed the request, and does not know its outcome.
	row(rpctypes.ErrTimeout):                    {"etcd did not answer in time", driver.OutcomeUnknown, true},
	row(rpctypes.ErrTimeoutDueToLeaderFail):     {"etcd did not answer in time", driver.OutcomeUnknown, true},
	row(rpctypes.ErrTimeoutDueToConnectionLost): {"etcd did not answer in time", driver.OutcomeUnknown, true},
	row(rpctypes.ErrLeaderChanged):              {"etcd did not answer in time", driver.OutcomeUnknown, true},
	row(rpctypes.ErrUnhealthy):                  {"etcd did not answer in time", driver.OutcomeUnknown, true},
	row(rpctypes.ErrStopped):                    {"etcd did not answer in time", driver.OutcomeUnknown, true},

	// An operator has to act. If a member accepted a request before the store was full, it applies it, and answers so too.
	row(rpctypes.ErrNoSpace):         {fullText, driver.OutcomeUnknown, false},
	row(rpctypes.ErrCorrupt):         {differ, driver.OutcomeRefused, false},
	row(rpctypes.ErrRequestTooLarge): {"the claim is longer than etcd takes", driver.OutcomeRefused, false},

	// If etcd does not know a login any more, the client logs in again.
	row(rpctypes.ErrInvalidAuthToken):     {"etcd does not know this login any more", driver.OutcomeRefused, true},
	row(rpctypes.ErrAuthOldRevision):      {"etcd does not know this login any more", driver.OutcomeRefused, true},
	row(rpctypes.ErrAuthFailed):           {"etcd does not accept {user} with this password", driver.OutcomeRefused, false},
	row(rpctypes.ErrUserNotFound):         {"etcd does not accept {user} with this password", driver.OutcomeRefused, false},
	row(rpctypes.ErrUserEmpty):            {noUser, driver.OutcomeRefused, false},
	row(rpctypes.ErrPermissionDenied):     {noRight, driver.OutcomeRefused, false},
	row(rpctypes.ErrPermissionNotGranted): {noRight, driver.OutcomeRefused, false},
}

const (
	fullText = "etcd has no space left: compact and defragment it, then disarm its alarm"
	differ   = "the members of etcd do not have the same data: see to its alarm"
	noUser   = "etcd asks for a user: put it in the URL as etcd://user:password@host"
	noRight  = "etcd does not let {user} read and write the keys under {prefix}"
)

// row returns an error as a key of the table.
func row(err error) rpctypes.EtcdError {
	e, _ := rpctypes.Error(err).(rpctypes.EtcdError) //nolint:errorlint // the library's own value, which wraps nothing
	return e
}
