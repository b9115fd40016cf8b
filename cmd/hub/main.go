// Command hub runs a replica of the hub: see package hub.
package main

import (
	goflag "flag"
	"os"

	"github.com/spf13/pflag"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/vdi-fleet/vdi-fleet/hub"
	"github.com/vdi-fleet/vdi-fleet/proto/logging"
)

// version is set by the linker.
var version = "dev"

func main() {
	options := hub.Options{Version: version}
	options.AddFlags(pflag.CommandLine)
	var logs zap.Options
	logs.BindFlags(goflag.CommandLine)
	pflag.CommandLine.AddGoFlagSet(goflag.CommandLine)
	pflag.Parse()
	ctrl.SetLogger(logging.New(&logs))

	cfg, err := ctrl.GetConfig()
	if err == nil {
		err = hub.Run(ctrl.SetupSignalHandler(), cfg, options)
	}
	if err != nil {
		ctrl.Log.Error(err, "The hub exited")
		os.Exit(1)
	}
}
