// Command agent runs the agent of a member cluster: see package agent.
package main

import (
	goflag "flag"
	"os"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vdi-fleet/vdi-fleet/agent"
)

// version is set by the linker.
var version = "dev"

func main() {
	options := agent.Options{Version: version}
	options.AddFlags(pflag.CommandLine)
	var logging zap.Options
	logging.BindFlags(goflag.CommandLine)
	pflag.CommandLine.AddGoFlagSet(goflag.CommandLine)
	pflag.Parse()
	ctrl.SetLogger(zap.New(zap.UseFlagOptions(&logging)))

	cfg, err := ctrl.GetConfig()
	if err == nil {
		err = agent.Run(ctrl.SetupSignalHandler(), cfg, options)
	}
	if err != nil {
		ctrl.Log.Error(err, "The agent ended")
		os.Exit(1)
	}
}
