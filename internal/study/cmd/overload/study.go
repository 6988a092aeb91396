package main

import (
	"context"
	"net/http"
	"runtime"
	"time"
)

// study is what is measured: each guard under each load.
type study struct {
	capacity int           // calls that the downstream serves at once
	service  time.Duration // in this time each
	guards   []string
	loads    []float64 // relative to what the downstream can do
	load     load      // but for the rate
}

// full is the study of the README. It takes 4 minutes.
func full() study {
	return study{
		capacity: 20,
		service:  50 * time.Millisecond,
		guards:   guards,
		loads:    []float64{0.2, 0.5, 0.8, 1, 1.2, 1.5, 2, 3, 5},
		load: load{
			patience: 500 * time.Millisecond,
			warmUp:   1500 * time.Millisecond,
			window:   3200 * time.Millisecond,
			seed:     1,
		},
	}
}

// short shows within seconds that everything works, and no more.
func short() study {
	s := full()
	s.service = 20 * time.Millisecond
	s.loads = []float64{0.2, 2}
	s.load.patience = 100 * time.Millisecond
	s.load.warmUp = 20 * time.Millisecond
	s.load.window = 100 * time.Millisecond
	return s
}

// perSecond returns how many calls the downstream can do.
func (s study) perSecond() float64 { return float64(s.capacity) / s.service.Seconds() }

// takes returns how long the loads take, without what goes on between them.
func (s study) takes() time.Duration {
	each := s.load.warmUp + s.load.window + s.load.coolDown()
	return each * time.Duration(len(s.guards)*len(s.loads))
}

// run measures, and tells each point as it is known. The guards take turns at
// each load, so that what slows the machine for a while slows all of them.
func (s study) run(ctx context.Context, tell func(point)) error {
	for _, relative := range s.loads {
		for _, guard := range s.guards {
			l := s.load
			l.rate = relative * s.perSecond()
			p, err := s.measure(ctx, guard, l)
			if err != nil {
				return err
			}
			tell(p)
		}
	}
	return nil
}

// measure sends the load to a new service with that guard.
func (s study) measure(ctx context.Context, guard string, l load) (point, error) {
	process, err := s.start(ctx, guard)
	if err != nil {
		return point{}, err
	}
	client := newClient()
	start, startCPU := time.Now(), cpuTime()
	answers := l.send(ctx, client, process.url)
	took, cpu := time.Since(start), cpuTime()-startCPU
	if ctx.Err() != nil {
		process.stop()
		return point{}, context.Cause(ctx)
	}
	figures, err := process.figures(ctx, &http.Client{Transport: &http.Transport{DisableKeepAlives: true}})
	client.CloseIdleConnections()
	if stopped := process.stop(); err == nil {
		err = stopped
	}
	if err != nil {
		return point{}, err
	}
	p := newPoint(guard, l, answers)
	p.service = figures
	p.cpu = (cpu + figures.CPU).Seconds() / took.Seconds() / float64(runtime.GOMAXPROCS(0))
	return p, nil
}
