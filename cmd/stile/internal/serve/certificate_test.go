package serve

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stilelock/stile/internal/servertest"
)

func write(t *testing.T, file string, text []byte, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(file, text, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ended returns a certificate that ended long ago, and its key.
func ended(t *testing.T) (cert, key []byte) {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)}
	cert, err = x509.CreateCertificate(rand.Reader, of, of, k.Public(), k)
	if err != nil {
		t.Fatal(err)
	}
	key, err = x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})
}

// A new pair is taken at the next handshake. Files that are no pair, or a key that others can read, leave the pair before in
// use, and a warning says why, once. At the start they are an error.
func TestCertificate(t *testing.T) {
	cert, key := servertest.Certificate(t)
	first, firstKey := read(t, cert), read(t, key)
	oldCert, oldKey := ended(t)
	var warned []string
	warn := func(err error) { warned = append(warned, err.Error()) }
	c, err := openCertificate(cert, key, warn)
	if err != nil {
		t.Fatal(err)
	}
	current := func() string {
		t.Helper()
		pair, err := c.current(nil)
		if err != nil || pair == nil {
			t.Fatal(err)
		}
		return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}))
	}
	otherCert, otherKey := servertest.Certificate(t)
	for _, change := range []struct {
		do   func()
		says string
	}{
		{func() { write(t, key, read(t, otherKey), 0o600) }, "no certificate with its key"},
		{func() { write(t, key, firstKey, 0o640) }, "others can use it; make it chmod 600"},
		{func() { write(t, key, firstKey, 0o604) }, "others can use it"},
		{func() { write(t, cert, first[:50], 0o644) }, "no certificate with its key"},
		{func() { write(t, cert, oldCert, 0o644); write(t, key, oldKey, 0o600) }, "ended on"},
		{func() { os.Remove(key) }, "no such file"},
		{func() { os.Remove(cert) }, "no such file"},
	} {
		warned = nil
		change.do()
		for range 2 {
			if got := current(); got != string(first) {
				t.Errorf("%s: the certificate is %s; want the one before", change.says, got)
			}
		}
		if len(warned) != 1 || !strings.Contains(warned[0], change.says) {
			t.Errorf("the warnings are %q; want one with %q", warned, change.says)
		}
		if _, err := openCertificate(cert, key, warn); err == nil || !strings.Contains(err.Error(), change.says) {
			t.Errorf("at the start: %v; want %q", err, change.says)
		}
		write(t, cert, first, 0o644)
		write(t, key, firstKey, 0o600)
		if got := current(); got != string(first) {
			t.Errorf("with the files as they were, the certificate is %s", got)
		}
	}
	write(t, cert, read(t, otherCert), 0o644)
	write(t, key, read(t, otherKey), 0o400)
	if warned = nil; current() != string(read(t, otherCert)) || len(warned) > 0 {
		t.Errorf("with a new pair, the certificate is %s, and the warnings are %q", current(), warned)
	}
}
