package server

import (
	"crypto/hkdf"
	"crypto/sha256"
	"fmt"
)

// minKey is the least size in bytes of a secret of the replicas.
const minKey = 32

// A purpose is what the server needs keys for. Each purpose has keys of its own, so what one key shows helps with no other.
type purpose string

const (
	forLogins purpose = "stile serve: logins to the page"
	forConsul purpose = "stile serve: sessions of Consul's clients"
)

// share makes the parts of the server that need what replicas share.
func (s *Server) share(o *Options) error {
	logins, err := keysFor(forLogins, o.Keys)
	if err != nil {
		return err
	}
	if o.Page {
		s.people = s.newPeople(newLogins(logins))
	}
	if !o.Consul {
		return nil
	}
	sessions, err := keysFor(forConsul, o.Keys)
	if err != nil {
		return err
	}
	s.consul, err = s.newConsul(sessions)
	return err
}

// keysFor derives the keys for a purpose, in the order of the secrets.
func keysFor(what purpose, secrets [][]byte) ([][]byte, error) {
	keys := make([][]byte, len(secrets))
	for i, secret := range secrets {
		if len(secret) < minKey {
			return nil, fmt.Errorf("a key of the replicas has at least %d bytes, and number %d has %d", minKey, i+1, len(secret))
		}
		key, err := hkdf.Key(sha256.New, secret, nil, string(what), minKey)
		if err != nil {
			return nil, err
		}
		keys[i] = key
	}
	return keys, nil
}
