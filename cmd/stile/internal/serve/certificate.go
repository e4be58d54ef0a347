package serve

import (
	"crypto/tls"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"
)

// A certificate is the service's certificate and its key, in two files that may change meanwhile. Two files do not change at
// one moment, so while they do not go together, the pair before stays in use.
type certificate struct {
	cert, key string
	warn      func(error) // takes the fault of a new pair, once per change of the fault

	mu   sync.Mutex // guards the fields below
	is   [2]fs.FileInfo
	pair *tls.Certificate
	said string // the last warning
}

// openCertificate reads both files.
func openCertificate(cert, key string, warn func(error)) (*certificate, error) {
	c := &certificate{cert: cert, key: key, warn: warn}
	return c, c.readLocked() // nobody else has it yet
}

// config returns the configuration of a server with this certificate.
func (c *certificate) config() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, GetCertificate: c.current}
}

// current returns the pair for a handshake. If a file has changed, it reads both first.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if unchanged(c.cert, c.is[0]) && unchanged(c.key, c.is[1]) {
		return c.pair, nil
	}
	if err := c.readLocked(); err != nil && c.said != err.Error() {
		c.said = err.Error()
		c.warn(err)
	}
	return c.pair, nil
}

// readLocked reads both files. If they are not a valid pair, the pair stays as it was.
func (c *certificate) readLocked() error {
	c.is = [2]fs.FileInfo{}
	key, ofKey, err := readPrivate(c.key)
	if err != nil {
		return err
	}
	ofCert, err := os.Stat(c.cert) // a change after this is seen by the next handshake
	if err != nil {
		return err
	}
	cert, err := os.ReadFile(c.cert)
	if err != nil {
		return err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return fmt.Errorf("%s and %s are no certificate with its key: %w", c.cert, c.key, err)
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		return fmt.Errorf("the certificate in %s ended on %s", c.cert, end.UTC().Format(time.DateOnly))
	}
	c.is, c.pair, c.said = [2]fs.FileInfo{ofCert, ofKey}, &pair, ""
	return nil
}
