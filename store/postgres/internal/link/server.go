package link

import (
	"errors"
	"fmt"
	"strings"
)

// oldest is the first supported version of PostgreSQL.
const oldest = 120000

// A Server is a server's own description.
type Server struct {
	Version string // in its own words
	Number  int    // such as 170002
	Standby bool
}

// AboutServer lists the columns of a Server.
const AboutServer = "version(), current_setting('server_version_num')::int, pg_is_in_recovery()"

// Major returns the major version, such as 17.
func (s *Server) Major() int { return s.Number / 10000 }

// Product returns the server's name and version.
func (s *Server) Product() string {
	return fmt.Sprintf("PostgreSQL %d.%d", s.Number/10000, s.Number%10000)
}

// Check returns why no locks can be kept on this server, or nil.
func (s *Server) Check() error {
	switch {
	case !strings.HasPrefix(s.Version, "PostgreSQL") || strings.Contains(s.Version, "-YB-"):
		return fmt.Errorf("this is not PostgreSQL, whose row locks these locks rely on (it says %.40q)", s.Version)
	case s.Number < oldest:
		return fmt.Errorf("postgres is too old: its version is %d, these locks need %d", s.Major(), oldest/10000)
	case s.Standby:
		return errors.New("postgres is a standby here, which accepts no writes: use the address of the primary")
	}
	return nil
}
