package trace

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Plan defines what to generate; see the package for the distributions.
type Plan struct {
	Seed uint64
	// Members of the fleet, in up to four regions.
	Members int
	Length  time.Duration
	// Load is the mean of what sessions request, as a share of the fleet's CPU
	// on nodes without GPUs.
	Load float64
	// OtherPods is the same for other owners' Pods.
	OtherPods float64
	// Failures adds losses of nodes and members.
	Failures bool
}

const (
	day = 24 * time.Hour
	// swing is the amplitude of the daily rate of arrivals, as a share of its mean.
	swing = 0.75

	users        = 2000
	userExponent = 1.2
	namespaces   = 12

	sessionMedian = 50 * time.Minute
	sessionSigma  = 0.9

	// One in gpuSessions sessions requests a GPU, and one in gpuNodes nodes has some.
	gpuSessions, gpuNodes = 30, 8

	podAlpha           = 1.1
	podLeast, podMost  = 5 * time.Minute, 6 * time.Hour
	podCPU, podMemory  = 500, 1024 // times 1 to 4, and 1 to 8
	failureShape       = 0.7
	nodeFails          = 20 * day
	nodeRepairMedian   = 20 * time.Minute
	memberFails        = 6 * day
	memberRepairMedian = 4 * time.Minute
	repairSigma        = 0.8
	leastRepair        = time.Second
	memberNodes        = 6    // at least
	cpuMemory          = 4096 // MiB for each cpu of a node
)

var (
	regions   = []string{"eu", "us", "asia", "south"}
	nodeCPUs  = []int64{8, 16, 32}
	weights   = []int32{50, 100, 150}
	gpuSize   = Size{CPU: 4000, Memory: 16 << 10, GPU: 1}
	baseSize  = Size{CPU: 1000, Memory: 2 << 10}
	sizeRanks = 4
)

// Generate returns the trace of a plan, the same for equal plans.
func Generate(p Plan) *Trace {
	t := &Trace{}
	// Each part has its own random source, so that a change of one leaves the
	// others unchanged.
	source := func(part uint64) *rand.Rand { return rand.New(rand.NewPCG(p.Seed, part)) }
	t.fleet(p, source(1))
	t.sessions(p, source(2))
	t.pods(p, source(3))
	if p.Failures {
		t.losses(p, source(4))
	}
	return t
}

func (t *Trace) fleet(p Plan, r *rand.Rand) {
	for i := range p.Members {
		m := Member{
			Name: fmt.Sprintf("member-%02d", i), Region: regions[i%len(regions)],
			Weight: weights[r.IntN(len(weights))],
		}
		t.Members = append(t.Members, m)
		cpu := nodeCPUs[r.IntN(len(nodeCPUs))]
		for n := range memberNodes << r.IntN(3) {
			node := Node{Name: fmt.Sprintf("node-%02d", n), Member: m.Name, Size: Size{CPU: cpu * 1000, Memory: cpu * cpuMemory}}
			if n%gpuNodes == gpuNodes-1 {
				node.GPU = cpu / 4
			}
			t.Nodes = append(t.Nodes, node)
		}
	}
}

// cpu returns the CPU of the nodes without GPUs of a member, or of all if it is empty.
func (t *Trace) cpu(member string) (sum int64) {
	for _, n := range t.Nodes {
		if n.GPU == 0 && (member == "" || n.Member == member) {
			sum += n.CPU
		}
	}
	return sum
}

func (t *Trace) sessions(p Plan, r *rand.Rand) {
	zipf := rand.NewZipf(r, userExponent, 1, users-1)
	rate := p.Load * float64(t.cpu("")) / (meanCPU() * lognormalMean(sessionMedian, sessionSigma))
	for at := range arrivals(r, rate, p.Length) {
		user := zipf.Uint64()
		s := Session{
			Name: fmt.Sprintf("session-%06d", len(t.Sessions)), User: fmt.Sprintf("user-%04d", user),
			Namespace: fmt.Sprintf("team-%02d", user%namespaces), Region: regions[user/namespaces%uint64(len(regions))],
			At: at, Runs: lognormal(r, sessionMedian, sessionSigma), Size: sessionSize(r),
		}
		t.Sessions = append(t.Sessions, s)
	}
}

func sessionSize(r *rand.Rand) Size {
	if r.IntN(gpuSessions) == 0 {
		return gpuSize
	}
	rank := 0
	for rank < sizeRanks-1 && r.IntN(2) == 0 {
		rank++
	}
	return Size{CPU: baseSize.CPU << rank, Memory: baseSize.Memory << (rank + r.IntN(2))}
}

// meanCPU returns the mean CPU request of sessions without a GPU, over all sessions.
func meanCPU() float64 {
	mean, chance := 0.0, 1.0
	for rank := range sizeRanks {
		here := chance / 2
		if rank == sizeRanks-1 {
			here = chance
		}
		mean += here * float64(baseSize.CPU<<rank)
		chance -= here
	}
	return mean * (gpuSessions - 1) / gpuSessions
}

// arrivals iterates over the arrivals of a Poisson process with a mean rate per second,
// thinned by the time of day.
func arrivals(r *rand.Rand, rate float64, length time.Duration) func(yield func(time.Duration) bool) {
	return func(yield func(time.Duration) bool) {
		highest := rate * (1 + swing)
		if highest <= 0 {
			return
		}
		for now := 0.0; ; {
			now += r.ExpFloat64() / highest
			if now >= length.Seconds() {
				return
			}
			// The rate is lowest at the start.
			wanted := rate * (1 - swing*math.Cos(2*math.Pi*now/day.Seconds()))
			if r.Float64()*highest < wanted && !yield(toMillisecond(now)) {
				return
			}
		}
	}
}

func (t *Trace) pods(p Plan, r *rand.Rand) {
	for _, m := range t.Members {
		rate := p.OtherPods * float64(t.cpu(m.Name)) / (podCPU * 2.5 * paretoMean(podAlpha, podLeast, podMost))
		for at := range steady(r, rate, p.Length) {
			times := 1 + r.Int64N(4)
			t.Pods = append(t.Pods, Pod{
				Name: fmt.Sprintf("pod-%06d", len(t.Pods)), Member: m.Name, At: at,
				Runs: pareto(r, podAlpha, podLeast, podMost), Size: Size{CPU: podCPU * times, Memory: podMemory * (1 + r.Int64N(8))},
			})
		}
	}
}

// steady iterates over the arrivals of a homogeneous Poisson process.
func steady(r *rand.Rand, rate float64, length time.Duration) func(yield func(time.Duration) bool) {
	return func(yield func(time.Duration) bool) {
		if rate <= 0 {
			return
		}
		for now := r.ExpFloat64() / rate; now < length.Seconds(); now += r.ExpFloat64() / rate {
			if !yield(toMillisecond(now)) {
				return
			}
		}
	}
}

func (t *Trace) losses(p Plan, r *rand.Rand) {
	add := func(member, node string, fails, repair time.Duration) {
		for at := weibull(r, failureShape, fails); at < p.Length; {
			lasts := max(lognormal(r, repair, repairSigma), leastRepair)
			t.Losses = append(t.Losses, Loss{Member: member, Node: node, At: at, Lasts: lasts})
			at += lasts + weibull(r, failureShape, fails)
		}
	}
	for _, m := range t.Members {
		add(m.Name, "", memberFails, memberRepairMedian)
	}
	for _, n := range t.Nodes {
		add(n.Member, n.Name, nodeFails, nodeRepairMedian)
	}
	slices.SortStableFunc(t.Losses, func(a, b Loss) int { return cmp.Compare(a.At, b.At) })
}

func lognormal(r *rand.Rand, median time.Duration, sigma float64) time.Duration {
	return max(toMillisecond(median.Seconds()*math.Exp(sigma*r.NormFloat64())), time.Millisecond)
}

// lognormalMean returns the mean in seconds.
func lognormalMean(median time.Duration, sigma float64) float64 {
	return median.Seconds() * math.Exp(sigma*sigma/2)
}

func weibull(r *rand.Rand, shape float64, scale time.Duration) time.Duration {
	return toMillisecond(scale.Seconds() * math.Pow(r.ExpFloat64(), 1/shape))
}

// pareto draws from a bounded Pareto distribution, by inversion.
func pareto(r *rand.Rand, alpha float64, least, most time.Duration) time.Duration {
	kept := 1 - math.Pow(least.Seconds()/most.Seconds(), alpha)
	return toMillisecond(least.Seconds() / math.Pow(1-r.Float64()*kept, 1/alpha))
}

// paretoMean returns the mean in seconds.
func paretoMean(alpha float64, least, most time.Duration) float64 {
	l, h := least.Seconds(), most.Seconds()
	return math.Pow(l, alpha) / (1 - math.Pow(l/h, alpha)) * alpha / (alpha - 1) * (1/math.Pow(l, alpha-1) - 1/math.Pow(h, alpha-1))
}
