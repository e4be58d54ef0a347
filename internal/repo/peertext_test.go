package repo

// The text of the page about other libraries; the tables are made of figures.
const (
	peerHead = `# Lock libraries under the same faults

The runner of [runs under faults](chaos.md) can drive lock libraries of others. This page has what was measured, and gives no
verdict. Each library was run %d times, with faults for %v: ` + "`make peers`" + ` runs them again, and
` + "`go run ./chaos -peer NAME -for %[2]v -seed %d -runs %d`" + ` one of them. The page is made of
` + "`" + peerFigures + "`" + `, which the runner writes.

- **Work.** %d processes have four waiters each, %d in all. A waiter takes one of two names, holds it for less than 30 ms, and one
  time in 24 for 3 to 5 s. A waiter gives up after 30 s, and one time in four sooner; where a library does not say how, it does not.
- **Faults.** The same seed draws the same faults for each library, one after the other: a process is killed or stopped, a server
  is stopped, ended or killed and started anew, and the way to it is cut, held or delayed. How the faults meet the requests
  is for chance to say, so two runs of one seed differ.
- **Settings.** A lease, an expiry or a session is 3 s where it can be set so. What a library leaves to its caller is done by the
  worker. The servers write each change to the disk. Where there are several, a fault hits one of them.
- **none** stands where a library has nothing of the kind. Libraries for Java are driven by a worker in Java,
  ` + "`" + `chaos/java` + "`" + `, whose process takes some seconds to start; the first fault waits for that.
- **When.** Redisson and Curator were measured later than the others, beside much more other work (a load of 40 to 70 on two cores). Times,
  and how many waiters held again within the minute, are not to be compared with those of the others.

All processes share one machine of two cores, which had other work to do: times are those of such a machine.

`
	peerOverlaps = `
## Two that hold at once

A process notes when it holds: a moment counts if the library, asked after it, says that the lock is held. The table counts holds
that began while another was believed in, and the longest time for which the earlier holder went on to believe. An overlap
needs no defect of the library: a process that stood still may go on for a while before it learns of the loss. The whole history
was held to the model of a mutex by Porcupine, run by run.

`
	peerUpdates = `
## Updates that are lost

A holder reads a counter at the beginning of a hold, and writes one more at the end. Three counters are kept: for writers that do not
ask whether they still hold, for writers that ask right before, and for writers with a token, where the counter
refuses a token older than one that has read. An update is lost if it was accepted and is not counted in the end:
one late write takes back all updates since its writer has read. A row that met no late write says nothing in the
other columns.

`
	peerWaits = `
## Waits, and what is left

A wait counts while somebody waits for a name, nobody holds the name, and there is no fault; clients may have to connect again
after one. The bound is 5 s more than the store may
keep what a dead process held: the lease, and on Consul twice the session and what is set as lock-delay. After the last fault the
runner waits for up to a minute until each waiter has held again. What is left is looked for on the servers
when all processes have ended, for as long as the bound.

`
	peerRuns = `
## Each run

`
)
