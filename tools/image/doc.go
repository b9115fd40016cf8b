// Command image makes an image that Docker has built the same bytes every time:
// it reads the archive of `docker save`, sets the times that the classic builder
// took from its clock, and the platform that it took from its machine, and writes
// an archive for `docker load`.
//
//	image --epoch SECONDS --platform OS/ARCH IN.tar OUT.tar NAME:TAG
package main
