// Package certlock has certmagic, the part of Caddy that manages certificates, lock in any store of stile:
//
//	certmagic.Default.Storage = certlock.New(&certmagic.FileStorage{Path: "/mnt/certificates"}, locks, "certs/")
//
// Certificates stay in the storage that they are in. It is for storages whose locks are weak: certmagic's files are locked by a
// timestamp that is looked at with each machine's own clock. All machines that share a storage must take the same locks: the
// storage's own locks and these do not see each other.
//
// For Caddy, a storage module returns such a storage from its CertMagicStorage method.
package certlock
