// Package secure makes the TLS configuration of a store's URL, and keeps secrets out of messages.
package secure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"

	"github.com/stilelock/stile/driver"
)

// Config reads the files that an address names: tls_ca, the authorities to trust in place of the system's, and tls_cert and
// tls_key, the client's certificate. tls_server_name is the name that the server's certificate must have; the default is the
// host's name.
func Config(a *driver.Address) (*tls.Config, error) {
	c := &tls.Config{ServerName: a.Param("tls_server_name", ""), MinVersion: tls.VersionTLS12}
	if file := a.Param("tls_ca", ""); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("parameter tls_ca: %w", err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("parameter tls_ca: %s has no certificate", file)
		}
	}
	cert, key := a.Param("tls_cert", ""), a.Param("tls_key", "")
	if (cert == "") != (key == "") {
		return nil, errors.New("parameters tls_cert and tls_key must be given together")
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("parameters tls_cert and tls_key: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}
