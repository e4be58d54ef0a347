package mysql

import (
	"testing"

	"github.com/go-sql-driver/mysql"
)

// An answer that the library cannot read is no answer of the server: the client asks again, on another connection.
func TestUnreadableAnswer(t *testing.T) {
	t.Parallel()
	s := &store{ctx: t.Context()}
	for _, err := range []error{mysql.ErrPktSync, mysql.ErrPktSyncMul, mysql.ErrMalformPkt, mysql.ErrBusyBuffer} {
		marks(t, s.definite(t.Context(), err), true, true)
		marks(t, s.explain(t.Context(), err), false, true) // after a commit the outcome is unknown
	}
}
