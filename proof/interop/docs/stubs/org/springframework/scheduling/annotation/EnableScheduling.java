package org.springframework.scheduling.annotation;

public @interface EnableScheduling {}
