// Package certlock makes certmagic, the part of Caddy that manages certificates, lock in any store of stile:
//
//	certmagic.Default.Storage = certlock.New(&certmagic.FileStorage{Path: "/mnt/certificates"}, locks, "certs/")
//
// Certificates stay in their storage. The package is for storages with weak locks: certmagic locks files by a timestamp that
// each machine compares with its own clock. All machines that share a storage must take the same locks: the storage's own
// locks and these do not exclude each other.
//
// For Caddy, a storage module returns such a storage from its CertMagicStorage method.
package certlock
