// Package gooselock makes goose v3 migrate a database under a lock in any store of stile:
//
//	locker := gooselock.New(locks, "shop/migrations")
//	provider, err := goose.NewProvider(goose.DialectMySQL, db, files, goose.WithLocker(locker))
//	...
//	ctx, cancel := locker.Context(ctx)
//	defer cancel()
//	results, err := provider.Up(ctx)
//
// It is for databases for which goose has no lock, and for databases behind a pooler that shares sessions. All programs that
// migrate one database must take the same lock: goose's own lock and this one do not exclude each other.
package gooselock
