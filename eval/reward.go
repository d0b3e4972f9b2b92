package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"belljar/eval/run"
	"belljar/eval/suite"
	"belljar/sandbox"
)

// scriptReward ends all that the tests and the solution left running, so that nothing
// changes the reward any more, and writes the files that have it, each after its name and size.
const scriptReward = `kill -9 -1 2>/dev/null
cd ` + suite.RewardDir + ` || exit 91
none=95
for f in reward.txt reward.json; do
[ -e "$f" ] || [ -L "$f" ] || continue
if [ -L "$f" ] || [ ! -f "$f" ]; then echo "$f is not a regular file"; exit 94; fi
n=$(wc -c <"$f") || exit 96
[ "$n" -le 65536 ] || exit 96
echo "$f" $n; cat "$f"; none=0
done
exit $none`

// rewarded reads the reward that the tests wrote. Their own exit status does not matter.
func (t *trial) rewarded(ctx context.Context, b *box, tests step, c control) outcome {
	switch out := tests.fails(run.BySolution); out.verdict {
	case "", run.Failed:
	default:
		return out
	}
	s := b.do(ctx, c.phase(), c.detail("reward"), func(cmd *sandbox.Command) { cmd.Script = scriptReward })
	if s.lost != "" { // the solution's code ran there: it may have ended it
		return s.outcome(run.Failed, run.BySolution, "the container was gone after the tests: %s", s.lost)
	}
	text := string(s.result.Stdout.Bytes())
	if c.planted && s.result.Cause == sandbox.CauseExited && s.result.ExitCode != 95 {
		return s.outcome(run.Passed, "", "a reward is where the tests wrote none")
	}
	switch out := s.fails(run.BySolution); {
	case out.verdict == "":
	case s.result.Cause != sandbox.CauseExited:
		return out
	case s.result.ExitCode == 95:
		return tests.outcome(run.Failed, run.BySolution, "the tests wrote no reward: %s", tests.said())
	case s.result.ExitCode == 94:
		return s.outcome(run.Tampered, run.BySolution, "%s", strings.TrimSpace(text))
	default:
		return out
	}
	reward, rewards, err := parseRewards(text)
	if err != nil {
		return s.outcome(run.Failed, run.BySolution, "%v", err)
	}
	out := tests.outcome(run.Passed, "", "")
	if reward < 1 {
		out = tests.outcome(run.Failed, run.BySolution, "reward %g", reward)
	}
	out.reward, out.rewards = &reward, rewards
	return out
}

// parseRewards reads what scriptReward wrote. Of two rewards the smaller counts.
func parseRewards(text string) (reward float64, rewards map[string]float64, err error) {
	reward = math.Inf(1)
	for text != "" {
		head, rest, _ := strings.Cut(text, "\n")
		name, size, _ := strings.Cut(head, " ")
		n, err := strconv.Atoi(strings.TrimSpace(size))
		if err != nil || n < 0 || n > len(rest) {
			return 0, nil, fmt.Errorf("reading the reward: %.100q", text)
		}
		one, all, err := parseReward(name, rest[:n])
		if err != nil {
			return 0, nil, err
		}
		if all != nil {
			rewards = all
		}
		reward, text = min(reward, one), rest[n:]
	}
	if math.IsInf(reward, 1) {
		return 0, nil, errors.New("reading the reward: it is empty")
	}
	return reward, rewards, nil
}

// parseReward reads a reward: a number, or names with numbers, of which "reward" or else the
// smallest counts.
func parseReward(name, content string) (reward float64, rewards map[string]float64, err error) {
	if name == "reward.txt" {
		text := strings.TrimSpace(content)
		reward, err = strconv.ParseFloat(text, 64)
		if err != nil || !isReward(reward) || strings.ContainsAny(text, "xX_") {
			return 0, nil, fmt.Errorf("%s is not a number: %.100q", name, content)
		}
		return reward, nil, nil
	}
	var all map[string]*float64
	if err := suite.StrictJSON([]byte(content), &all, false); err != nil || len(all) == 0 || len(all) > 1000 {
		return 0, nil, fmt.Errorf("%s does not have names with numbers: %.100q", name, content)
	}
	reward, rewards = math.Inf(1), map[string]float64{}
	for key, r := range all {
		if r == nil || !isReward(*r) {
			return 0, nil, fmt.Errorf("%s has a value that is not a number: %.100q", name, content)
		}
		reward, rewards[key] = min(reward, *r), *r
	}
	if one, ok := rewards[run.DefaultReward]; ok {
		reward = one
	}
	return reward, rewards, nil
}

// isReward refuses numbers so large that a sum of them, as of steps, may be infinite. NaN is none, too.
func isReward(r float64) bool { return math.Abs(r) <= 1e12 }
