// Package provisioner makes the volumes of the harness's clusters, as a CSI driver would:
// objects of the API server, with nothing behind them.
package provisioner
