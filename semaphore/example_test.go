package semaphore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/turnstile-go/turnstile/semaphore"
)

// A worker pool without workers: at most three of the tasks run at once, and
// acquiring all permits at the end waits for the last of them.
func Example_workerPool() {
	const limit = 3
	ctx := context.Background()
	sem := semaphore.NewWeighted(limit)

	squares := make([]int, 10)
	for i := range squares {
		if err := sem.Acquire(ctx, 1); err != nil {
			fmt.Println(err)
			return
		}
		go func() {
			defer sem.Release(1)
			squares[i] = i * i
		}()
	}
	if err := sem.Acquire(ctx, limit); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(squares)
	// Output: [0 1 4 9 16 25 36 49 64 81]
}

// Weights say how much of the common good a task takes: here, megabytes.
func Example_weights() {
	memory := semaphore.NewWeighted(100)
	for _, image := range []struct {
		name string
		mb   int64
	}{{"portrait", 30}, {"panorama", 60}, {"poster", 40}, {"mural", 500}} {
		// Nobody waits here. A mural never fits, a poster does not fit now.
		err := memory.AcquireWithin(context.Background(), image.mb, 0)
		fmt.Printf("%s: %v\n", image.name, err)
	}
	fmt.Println(memory.Stats().Available, "MB left")
	// Output:
	// portrait: <nil>
	// panorama: <nil>
	// poster: semaphore: timed out
	// mural: semaphore: weight exceeds limit
	// 10 MB left
}

func ExampleWeighted_AcquireWithin() {
	sem := semaphore.NewWeighted(1)
	call := func() {
		// A second is what our own caller will wait in any case.
		switch err := sem.AcquireWithin(context.Background(), 1, 10*time.Millisecond); {
		case errors.Is(err, semaphore.ErrTimeout):
			fmt.Println("too busy, try again later")
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println("calling the database")
		}
	}
	call() // and never releases
	call()
	sem.Release(1)
	call()
	// Output:
	// calling the database
	// too busy, try again later
	// calling the database
}

func ExampleWeighted_TryAcquire() {
	refresh := semaphore.NewWeighted(1)
	for range 2 {
		if !refresh.TryAcquire(1) {
			fmt.Println("somebody is refreshing the cache already")
			continue
		}
		fmt.Println("refreshing the cache") // and does not release before the end
	}
	refresh.Release(1)
	// Output:
	// refreshing the cache
	// somebody is refreshing the cache already
}

func ExampleWeighted_SetLimit() {
	sem := semaphore.NewWeighted(4)
	sem.TryAcquire(4)
	show := func(what string) {
		st := sem.Stats()
		fmt.Printf("%s: %d of %d in use, %d available\n", what, st.InUse, st.Limit, st.Available)
	}
	sem.SetLimit(2) // returns at once, and takes nothing away from anybody
	show("shrunk")
	sem.Release(3)
	show("after three releases")
	sem.SetLimit(10)
	show("grown")
	// Output:
	// shrunk: 4 of 2 in use, 0 available
	// after three releases: 1 of 2 in use, 1 available
	// grown: 1 of 10 in use, 9 available
}

// A limit of 0 is a pause: calls wait until it is over, and none fails.
func ExampleWeighted_SetLimit_pause() {
	sem := semaphore.NewWeighted(2)
	sem.SetLimit(0)

	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			if err := sem.Acquire(context.Background(), 1); err != nil {
				fmt.Println(err)
				return
			}
			defer sem.Release(1)
			fmt.Println("done")
		})
	}
	fmt.Println("the database is being moved")
	sem.SetLimit(2)
	calls.Wait()
	// Output:
	// the database is being moved
	// done
	// done
	// done
}

// On shutdown, no new work begins, and what is running may finish, within
// reason.
func ExampleWeighted_Drain() {
	sem := semaphore.NewWeighted(10)
	finish := make(chan struct{})
	for range 3 {
		if err := sem.Acquire(context.Background(), 1); err != nil {
			fmt.Println(err)
			return
		}
		go func() {
			defer sem.Release(1)
			<-finish
		}()
	}

	sem.Close()
	fmt.Println("new work:", sem.Acquire(context.Background(), 1))

	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	fmt.Println("too soon:", sem.Drain(ctx), "with", sem.Stats().InUse, "running")

	close(finish)
	fmt.Println("in the end:", sem.Drain(context.Background()), "with", sem.Stats().InUse, "running")
	// Output:
	// new work: semaphore: closed
	// too soon: context deadline exceeded with 3 running
	// in the end: <nil> with 0 running
}

func ExampleNew() {
	_, err := semaphore.New(semaphore.Config{Limit: 10, MaxWaiters: -1})
	fmt.Println(err)

	sem, err := semaphore.New(semaphore.Config{Limit: 10, MaxWaiters: 100})
	fmt.Println(sem.Stats().Limit, err)
	// Output:
	// semaphore: Config.MaxWaiters is -1, must not be negative
	// 10 <nil>
}

// What golang.org/x/sync/semaphore does otherwise: a request above the limit
// fails at once instead of waiting for the context to end; a waiter at limit 0
// makes TryAcquire(0) fail; and a release of too much changes nothing.
func Example_differencesFromXSync() {
	sem := semaphore.NewWeighted(2)
	fmt.Println(sem.Acquire(context.Background(), 3))

	func() {
		defer func() { fmt.Println(recover()) }()
		sem.Release(1)
	}()
	fmt.Println(sem.TryAcquire(2), sem.TryAcquire(1))
	// Output:
	// semaphore: weight exceeds limit
	// semaphore: released more than held
	// true false
}
