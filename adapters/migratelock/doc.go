// Package migratelock makes golang-migrate v4 migrate a database under a lock in any store of stile:
//
//	driver, err := mysql.WithInstance(db, &mysql.Config{})
//	...
//	driver = migratelock.New(driver, locks, "shop/migrations", 10*time.Second)
//	m, err := migrate.NewWithDatabaseInstance("file://migrations", "mysql", driver)
//
// It is for databases for which golang-migrate has no lock between processes, and for databases behind a pooler that shares
// sessions. The driver's own lock is not taken. All programs that migrate one database must take the same lock: the driver's
// lock and this one do not exclude each other.
package migratelock
