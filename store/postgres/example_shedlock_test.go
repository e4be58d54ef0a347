package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stilelock/stile"
	_ "github.com/stilelock/stile/store/postgres"
)

// A nightly job starts in Go and Java instances at the same time, and one of them runs it: the lock is a row of ShedLock's
// table. The lock stays taken for an hour from the start of the job, so that an instance whose clock is a little late does
// not run the job again. Only the clock of the database decides.
func Example_nightly() {
	ctx := context.Background()
	database := os.Getenv("DATABASE_URL")
	if err := createShedLock(ctx, database); err != nil {
		log.Fatal(err)
	}
	locks, err := stile.Open(ctx, database+"?layout=shedlock", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer locks.Close()

	for _, instance := range []string{"one", "two"} {
		if err := nightly(ctx, locks, instance); err != nil {
			log.Fatal(err)
		}
	}
	// Output:
	// one writes the report
	// two: it is done, or being done
}

// nightly is the job that each instance starts. In ShedLock it is @SchedulerLock(name = "nightly-report", lockAtMostFor =
// "1m", lockAtLeastFor = "1h"), except that stile renews the minute while the job runs, so the job may take longer.
func nightly(ctx context.Context, locks *stile.Client, instance string) error {
	lease, err := locks.Mutex("nightly-report").With(stile.LockOptions{TTL: time.Minute}).TryLock(ctx)
	if errors.Is(err, stile.ErrHeld) {
		fmt.Printf("%s: it is done, or being done\n", instance)
		return nil
	}
	if err != nil {
		return err
	}
	again := time.Now().Add(time.Hour)
	err = report(lease.Context(), instance)
	return errors.Join(err, lease.UnlockAfter(max(0, time.Until(again))))
}

// report is the work. It ends with its context, since then the lock is lost.
func report(ctx context.Context, instance string) error {
	fmt.Println(instance, "writes the report")
	return context.Cause(ctx)
}

// createShedLock makes the table of ShedLock's documentation; programs that use ShedLock have it.
func createShedLock(ctx context.Context, database string) error {
	conn, err := pgx.Connect(ctx, database)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `CREATE TABLE IF NOT EXISTS shedlock (name VARCHAR(64) NOT NULL, lock_until TIMESTAMP NOT NULL,
		locked_at TIMESTAMP NOT NULL, locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))`)
	return err
}
